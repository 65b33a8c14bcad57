"""Shows the doctests of a docstring as code: Markdown would take `>>>` for quotations."""

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):  # type: ignore[misc] # Any, where griffe is not installed
    """Puts each doctest into a block of code."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(lambda match: f"```pycon\n{match[0]}\n```", obj.docstring.value)
