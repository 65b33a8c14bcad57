"""The names of kept columns, which no table and no view may have already."""

import re
from functools import cache
from importlib.resources import files

_KEPT_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,62}")
_SQL = files("sessionization") / "sql"
_COLUMN = re.compile(r"^  ([a-z]\w*)|\b([a-z]\w*): (?:string|int|bigint|timestamp)", re.MULTILINE)
"""A column of a table or a view, as their files write it, or a field of a struct in one."""
_STEPS = frozenset({"first_end", "labels", "opened_ms", "place", "reason", "since_ms", "started_ms", "starts_here"})
"""Columns that stand beside the kept ones only on the way to a table or in a view."""


def check_kept_column(name: str) -> str:
    """Return the name of a kept column; raises `ValueError` for one that cannot be a column, or is one already."""
    if _KEPT_COLUMN.fullmatch(name) is None:
        msg = f"{name!r} cannot be a column: write at most 63 of the characters a-z, 0-9 and '_', first a letter"
        raise ValueError(msg)
    if name in taken_names():
        msg = f"{name!r} is a column of the tables or views already: write another name"
        raise ValueError(msg)
    return name


@cache
def taken_names() -> frozenset[str]:
    """The columns of the tables and views and on the way to them, and `title`."""
    statements = (file.read_text(encoding="utf-8") for kind in ("tables", "views") for file in (_SQL / kind).iterdir())
    return frozenset(_STEPS.union({"title"}, *(name for text in statements for name in _COLUMN.findall(text)))) - {""}
