"""Texts and names as Spark SQL writes them."""

from collections.abc import Iterable


def quoted_text(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted_name(name: str) -> str:
    """A name of a table, a column or a field, whatever characters it has.

    >>> quoted_name("order")
    '`order`'
    """
    return "`" + name.replace("`", "``") + "`"


def quoted_path(names: Iterable[str]) -> str:
    """A column, or a field in it.

    >>> quoted_path(["device", "hw.id"])
    '`device`.`hw.id`'
    """
    return ".".join(map(quoted_name, names))
