"""The answer to a query, and how a terminal shows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """The names of the columns, and the rows as texts; None is a null. A name may be there twice."""

    names: Sequence[str]
    rows: Sequence[Sequence[str | None]]


def as_table(answer: Answer, console: Console) -> Table:
    """The rows as a table; where that is too wide for the console, one column after the other, row by row."""
    texts = [[Text(value or "") for value in row] for row in answer.rows]
    table = Table(*answer.names)
    for row in texts:
        table.add_row(*row)
    if console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum <= console.width:
        return table
    records = Table("column", "value", show_header=False)
    for row in texts:
        for name, text in zip(answer.names, row, strict=True):
            records.add_row(name, text)
        records.add_section()
    return records
