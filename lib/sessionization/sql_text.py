"""Texts and names as Spark SQL writes them."""


def quoted_text(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quoted_name(name: str) -> str:
    """A name of a table, a column or a field, whatever characters it has.

    >>> quoted_name("order")
    '`order`'
    """
    return "`" + name.replace("`", "``") + "`"
