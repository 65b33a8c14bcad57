"""Answers by DuckDB, from tables that delta-rs reads: within two seconds, where Spark would start first."""

import logging
import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError
from deltalake.schema import StructType
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sessionization.spark.tables.schemas import FIRST_START, LAST_ACTIVE_COLUMN, SESSION_CHANGES, SESSIONS
from sessionization.spark.tables.view_sql import VIEWS, session_view_sql, stored_heartbeat_ms
from sessionization_laptop.query import common_sql
from sessionization_laptop.query.answer import Answer

FOR_SPARK = {"freshness"}
"""Views that DuckDB has no functions for."""
_MOST_BYTES = 200_000_000
"""Of a larger table Spark reads only the files that a query needs, and DuckDB would copy them all."""
_SMALLEST_PLAIN, _SMALLEST_EXPONENT = 1e-3, 1e7
"""Between them Spark writes a number without an exponent."""

logging.getLogger("sqlglot").setLevel(logging.ERROR)  # it warns of statements that Spark answers


def duckdb_answer(warehouse: Path, sql: str, rows: int) -> Answer | None:
    """At most `rows` rows of the result; None where DuckDB cannot say it, or might say something else than Spark."""
    if "%" in str(warehouse.absolute()):  # delta-rs 1.6 takes %20 for a space
        return None
    try:
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            return _answer(database, warehouse, sql, rows)
    except (common_sql.NotCommonError, SqlglotError, duckdb.Error, DeltaError, OSError, ValueError):
        return None


def _answer(database: duckdb.DuckDBPyConnection, warehouse: Path, sql: str, rows: int) -> Answer:
    query = common_sql.parse(sql)
    named = common_sql.tables_of(query)
    views = {name: common_sql.query_of_view(_view_sql(warehouse, name)) for name in named & set(VIEWS) - FOR_SPARK}
    tables = named.union(*map(common_sql.tables_of, views.values())) - views.keys()
    columns = _columns_of((query, *views.values()))
    types = {name: _loaded(database, warehouse, name, columns) for name in tables}
    for name, view in views.items():
        types[name] = _created(database, f"VIEW {name} AS {common_sql.translate_view(view, types)}")
    result = database.execute(common_sql.translate(query, {name: types[name] for name in named}))
    described = [(column[0], str(column[1])) for column in result.description or ()]
    if any("MAP" in type_ for _, type_ in described):  # Python cannot tell it from a struct
        raise common_sql.NotCommonError(sql)
    written = {name.lower(): name for of_table in types.values() for name in of_table}
    shown = common_sql.names_of_result(query) or [written.get(name, name) for name, _ in described]
    return Answer(shown, [[_text(value) for value in row] for row in result.fetchmany(rows)])


def _columns_of(queries: Iterable[exp.Expr]) -> set[str] | None:
    """The names of the columns that the queries may read; None where they may read all of a table's."""
    names = set[str]()
    for query in queries:
        if any(not isinstance(star.parent, exp.Count) for star in query.find_all(exp.Star)):
            return None
        names |= {identifier.name.lower() for identifier in query.find_all(exp.Identifier)}
    return names


def _loaded(
    database: duckdb.DuckDBPyConnection, warehouse: Path, name: str, columns: set[str] | None
) -> dict[str, str]:
    """Copy a table of the warehouse into the database, or its columns that are in `columns`; returns their types."""
    table = DeltaTable(warehouse / name)
    if sum(table.get_add_actions(flatten=True)["size_bytes"].to_pylist()) > _MOST_BYTES:
        raise common_sql.NotCommonError(name)
    fields = [field.name for field in table.schema().fields if columns is None or field.name.lower() in columns]
    wanted = ", ".join(f'"{field}"' for field in fields) or "1 AS one"
    database.register("batches", QueryBuilder().register("stored", table).execute(f"SELECT {wanted} FROM stored"))
    return _created(database, f"TABLE {name} AS SELECT * FROM batches")


def _created(database: duckdb.DuckDBPyConnection, what: str) -> dict[str, str]:
    """Create a table or a view; returns the types of its columns by name."""
    database.execute(f"CREATE {what}")
    return {row[0]: row[1] for row in database.execute(f"DESCRIBE {what.split()[1]}").fetchall()}


def _view_sql(warehouse: Path, name: str) -> str:
    """The statement that creates a view, as it fits these tables."""
    sessions, changes = DeltaTable(warehouse / SESSIONS.name), DeltaTable(warehouse / SESSION_CHANGES.name)
    [first_start] = [field.type for field in sessions.schema().fields if field.name == "_first_start"]
    assert isinstance(first_start, StructType)
    return session_view_sql(
        name,
        heartbeat_ms=stored_heartbeat_ms(sessions.metadata().configuration),
        labels=[field.name for field in first_start.fields[len(FIRST_START) :]],
        has_activity=LAST_ACTIVE_COLUMN.name in {field.name for field in changes.schema().fields},
    )


def _text(value: object) -> str | None:
    """A value as Spark's cast to text writes it."""
    match value:
        case None | str():
            text = value
        case bool():
            text = str(value).lower()
        case float():
            text = _number(value)
        case bytes():
            text = value.decode()
        case datetime():
            text = re.sub(r"\.?0+$", "", f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}")
        case int() | date():
            text = str(value)
        case dict():
            text = f"{{{', '.join(map(_inner, value.values()))}}}"
        case list():
            text = f"[{', '.join(map(_inner, value))}]"
        case _:
            raise common_sql.NotCommonError(value)
    return text


def _inner(value: object) -> str:
    return "null" if (text := _text(value)) is None else text


def _number(value: float) -> str:
    if not math.isfinite(value):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    if value == 0 or _SMALLEST_PLAIN <= abs(value) < _SMALLEST_EXPONENT:
        return str(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"
