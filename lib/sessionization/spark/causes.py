"""What an engine's long message says in one line."""

import re

_NAMED = re.compile(r"^(?:Caused by: |: )?((?:[\w$]+\.)*\w*(?:Error|Exception)\b(?:: .+)?)$", re.MULTILINE)
_LONGEST = 500


def first_cause(text: str) -> str:
    """The innermost cause in an engine's message: the last line that names an exception, else the first line."""
    named = _NAMED.findall(text)
    return (named[-1] if named else text.strip().partition("\n")[0])[:_LONGEST]
