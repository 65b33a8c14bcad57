"""Functions that fail, for the place of others."""

import os
from collections.abc import Callable
from typing import NoReturn


def failing_with(number: int) -> Callable[..., NoReturn]:
    """A function that raises the operating system's error of this number, whatever it is called with."""

    def fail(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return fail
