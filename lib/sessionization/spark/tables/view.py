"""What a view is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A view; `{sessions}` and the like in its SQL stand for the tables."""

    name: str
    comment: str
    sql: str
