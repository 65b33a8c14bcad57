"""The definition of a view."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A view: name, comment and SQL, in which `{sessions}` and similar placeholders stand for tables."""

    name: str
    comment: str
    sql: str
