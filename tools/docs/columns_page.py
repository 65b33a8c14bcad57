"""A page of all tables and views, from the SQL files that create them: their columns, and what joins what."""

import re
from collections.abc import Iterable

from sessionization.spark.tables.schemas import JOB_LEASE, PLAYER_TABLES, SESSION_PREDICTIONS, TABLES, Column, Table
from sessionization.spark.tables.statements import Kind, names_of, read_statement

ALL = (*TABLES, SESSION_PREDICTIONS, *PLAYER_TABLES, JOB_LEASE)
KEYS = {
    "sessions": ("device_id", "session_id"),
    "raw_events": ("stream", "partition", "offset"),
    "daily_activity": ("day", "title", "platform"),
    "player_first_days": ("player_kind", "player", "title"),
    "finding_limits": ("finding", "player_kind", "player"),
}
"""What one row of a table stands for. Tables that have these columns too can be joined to it by them."""
_SINGLE = {"quarantine", "session_predictions"}
"""Tables that have at most one row for each row of the table that they are joined to."""
_HEADER = re.compile(r"VIEW \$\{schema\}\.\w+ \(\n(.*?)\n\)\n", re.DOTALL)
_VIEW_COLUMN = re.compile(r"^  (\w+)(?: COMMENT '(.*?)')?(?:,|\$\{labels\})*$", re.MULTILINE)
_COMMENT = re.compile(r"^COMMENT '(.*)'$", re.MULTILINE)
_OF_PLAYERS = re.compile(r"\$\{(played|days|played_in_days)\}")
_FROM_TABLE = re.compile(r"\$\{schema\}\.(\w+)")


def columns_page() -> str:
    """The page as Markdown."""
    lines = ["# Every column", ""]
    lines += ["From the files that create the tables and views. What a person has to know: [tables](tables.md).", ""]
    lines += [
        "## What joins what",
        "",
        "A line is a join by the columns that it names. Only messages from topics have an",
    ]
    lines += [
        "offset: those from files are in `raw_events` and in `quarantine` without a common key.",
        "",
        *_joins(),
        "",
    ]
    lines += ["## What reads what", "", "From tables to the views over them.", "", *_reads(), ""]
    lines += ["## Tables", ""]
    for table in ALL:
        lines += _table(table)
    lines += ["## Views", ""]
    for name, kind in _views():
        lines += _view(name, read_statement(kind, name))
    return "\n".join(lines)


def _views() -> Iterable[tuple[str, Kind]]:
    for kind in ("views", "metrics"):
        yield from ((name, kind) for name in names_of(kind))


def _joins() -> list[str]:
    lines, joined = [], dict[str, set[str]]()
    for name, key in KEYS.items():
        for other in ALL:
            columns = {column.name: column for column in other.columns}
            if other.name == name or not columns.keys() >= set(key):
                continue
            one = "||" if all(not columns[column].nullable for column in key) else "|o"
            many = "o|" if other.name in _SINGLE else "o{"
            lines.append(f'  {name} {one}--{many} {other.name} : "{", ".join(key)}"')
            joined.setdefault(name, set()).update(key)
            joined.setdefault(other.name, set()).update(key)
    for table in (table for table in ALL if table.name in joined):
        shown = [column for column in table.columns if column.name in joined[table.name]]
        keys = set(KEYS.get(table.name, ()))
        lines += [f"  {table.name} {{", *(_attribute(column, is_key=column.name in keys) for column in shown), "  }"]
    return ["```mermaid", "erDiagram", "  direction LR", *lines, "```"]


def _attribute(column: Column, *, is_key: bool) -> str:
    return f"    {column.type} {column.name}{' PK' if is_key else ''}"


def _reads() -> list[str]:
    tables, views = {table.name for table in ALL}, dict(_views())
    edges = []
    for name, kind in views.items():
        statement = _OF_PLAYERS.sub(lambda match: read_statement("players", match[1]), read_statement(kind, name))
        read = set(_FROM_TABLE.findall(statement)) & {*tables, *views} - {name}
        edges += [(source, name) for source in sorted(read)]
    shapes = [f"  {table}[({table})]" for table in sorted({source for source, _ in edges} & tables)]
    return ["```mermaid", "flowchart LR", *shapes, *(f"  {source} --> {name}" for source, name in edges), "```"]


def _table(table: Table) -> list[str]:
    lines = [f"### {table.name}", "", _comment(table.statement), ""]
    if table.partitioned_by:
        lines += [f"Partitioned by {', '.join(f'`{name}`' for name in table.partitioned_by)}.", ""]
    lines += ["| column | type | null | |", "|---|---|---|---|"]
    lines += [
        f"| `{column.name}` | {_type(column)} | {'yes' if column.nullable else 'no'} | {column.comment} |"
        for column in table.columns
    ]
    if table.constraints:
        lines += ["", "Constraints:", "", *(f"- `{name}`: `{condition}`" for name, condition in table.constraints)]
    return [*lines, ""]


def _type(column: Column) -> str:
    return "internal" if column.name.startswith("_") else f"`{column.type}`"


def _view(name: str, statement: str) -> list[str]:
    lines = [f"### {name}", "", _comment(statement), ""]
    if (header := _HEADER.search(statement)) is None:
        return lines
    columns = _VIEW_COLUMN.findall(header[1])
    lines += ["| column | |", "|---|---|", *(f"| `{column}` | {comment} |" for column, comment in columns)]
    return [*lines, ""]


def _comment(statement: str) -> str:
    comment = _COMMENT.search(statement)
    assert comment is not None
    return f"{comment[1]}."
