"""The SQL files of the tables and views, which stand in `sessionization/sql`.

A file is one statement that can be pasted once its placeholders are replaced: `${schema}` by the catalog and schema,
such as `games.prod`; `${checkpoint}` by the id of the checkpoint that writes the table; `${heartbeat_window_s}` by
seconds; `${labels}` by the label columns, each after a comma, or by nothing; `${title}`, `${last_active_at}` and
`${implied_starts}` by the column of that name, or, where the tables lack it, by a null; in `session_days` `${played}`,
`${days}` and `${played_in_days}` by these queries of the job players.
"""

import re
from collections.abc import Callable
from importlib.resources import files
from string import Template
from typing import Literal

_FOLDER = files("sessionization") / "sql"
Kind = Literal["tables", "views", "players", "metrics", "serving"]


def names_of(kind: Kind) -> tuple[str, ...]:
    """The names of all statements of a kind, sorted."""
    return tuple(sorted(file.name.removesuffix(".sql") for file in (_FOLDER / kind).iterdir()))


def read_statement(kind: Kind, name: str) -> str:
    """The statement that creates a table or view, or a query of the job players, with its placeholders."""
    return (_FOLDER / kind / f"{name}.sql").read_text(encoding="utf-8")


def fill_in(statement: str, sql_name: Callable[[str], str], **values: object) -> str:
    """The statement with its placeholders replaced: `${schema}.sessions` by `sql_name("sessions")`, others by `values`.

    A table in a folder is named without a schema, so the whole name is replaced. Raises `KeyError` where a placeholder
    has no value.
    """
    return with_names(Template(statement).substitute(values, schema="${schema}"), sql_name)


def with_names(statement: str, sql_name: Callable[[str], str]) -> str:
    """The statement with `${schema}.sessions` replaced by `sql_name("sessions")`, and no other placeholder."""
    return re.sub(r"\$\{schema\}\.(\w+)", lambda match: sql_name(match[1]), statement)
