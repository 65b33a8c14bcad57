"""The command line of a job, as the job itself reads it."""

from collections.abc import Sequence
from typing import TypeVar

import pytest
from pydantic import BaseModel

from sessionization.command_line.parser import run_job

M = TypeVar("M", bound=BaseModel)


def parse(model: type[M], argv: Sequence[str], prog: str) -> M:
    """The settings that a job of this name gets. Raises `SystemExit` where the job would end without starting."""
    found: list[M] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [prog, *argv])
        try:
            run_job(lambda settings, _say: found.append(settings), model, prog)
        except SystemExit:
            if not found:
                raise
    return found[0]
