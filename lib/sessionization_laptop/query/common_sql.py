"""Queries of Spark SQL that DuckDB answers as Spark does, as DuckDB writes them (docs/adr/0051-sql-by-duckdb.md)."""

from collections import Counter
from collections.abc import Mapping

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify
from sqlglot.schema import MappingSchema

from sessionization_laptop.query.common_parts import is_common, type_of

Types = Mapping[str, Mapping[str, str]]
"""The columns of tables by name, with their types in DuckDB."""

_SPARK, _DUCKDB = "spark", "duckdb"


class NotCommonError(Exception):
    """DuckDB might answer the query in another way than Spark."""


def parse(sql: str) -> exp.Select:
    """The query. Raises `NotCommonError` for another statement, or as sqlglot does (`SqlglotError`)."""
    tree = parse_one(sql, dialect=_SPARK)
    if not isinstance(tree, exp.Select) or "\\" in sql:
        raise NotCommonError(sql)
    return tree


def query_of_view(statement: str) -> exp.Expr:
    """The query of a statement that creates a view."""
    return parse_one(statement, dialect=_SPARK).expression  # type: ignore[no-any-return]


def tables_of(query: exp.Expr) -> set[str]:
    """The names of the tables and views that a query reads."""
    own = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    return {table.name.lower() for table in query.find_all(exp.Table)} - own


def names_of_result(query: exp.Select) -> list[str] | None:
    """What the query calls its columns; None where the tables say it, because of a star."""
    if any(column.is_star for column in query.selects):
        return None
    return [
        column.alias_or_name
        if isinstance(column, exp.Column | exp.Alias)
        else column.sql(_SPARK, normalize_functions="lower")
        for column in query.selects
    ]


def translate(query: exp.Select, types: Types) -> str:
    """The query as DuckDB reads it.

    Raises `NotCommonError` where DuckDB might answer in another way than Spark, and `SqlglotError` where a name or a
    part of the query is not known.
    """
    _refuse_ambiguous(query, {name.lower() for columns in types.values() for name in columns})
    typed = _typed(query, types)
    for node in typed.walk():
        if not is_common(node):
            raise NotCommonError(node.sql(_SPARK))
    return _to_duckdb(typed)


def translate_view(query: exp.Expr, types: Types) -> str:
    """The query of a view as DuckDB reads it: one that a test compares with Spark, whatever its parts."""
    return _to_duckdb(_typed(query, types))


def _typed(query: exp.Expr, types: Types) -> exp.Expr:
    schema = MappingSchema(dialect=_SPARK)
    for table, columns in types.items():
        schema.add_table(table, {name: exp.DataType.build(type_, dialect=_DUCKDB) for name, type_ in columns.items()})
    return annotate_types(qualify(query.copy(), schema=schema, dialect=_SPARK), schema=schema, dialect=_SPARK)


def _to_duckdb(query: exp.Expr) -> str:
    """The query as DuckDB reads it, with what sqlglot 30 would translate to something else."""
    for node in reversed(list(query.dfs())):  # a part before what it is a part of
        if (replacement := _as_in_spark(node)) is not None:
            node.replace(replacement)
    return query.sql(_DUCKDB, unsupported_level=ErrorLevel.RAISE)


def _as_in_spark(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.CountIf):  # of nothing but nulls DuckDB counts null
        return exp.Count(this=exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))]))
    if isinstance(node, exp.DateFromUnixDate):  # sqlglot makes it an instant
        return exp.cast(node.copy(), exp.DataType.Type.DATE)
    if isinstance(node, exp.UnixMillis):  # DuckDB rounds
        return exp.UnixMillis(this=exp.TimestampTrunc(this=node.this, unit=exp.var("MILLISECOND")))
    if isinstance(node, exp.TryCast):  # Spark raises an error where it cannot cast, and DuckDB rounds
        return exp.Cast(this=exp.Trunc(this=node.this) if type_of(node.this) == "DOUBLE" else node.this, to=node.to)
    return None


def _refuse_ambiguous(query: exp.Expr, known: set[str]) -> None:
    """Refuse a name that may be a column's or an alias: Spark and sqlglot choose by different rules."""
    aliases = Counter(node.alias.lower() for node in query.find_all(exp.Alias))
    for column in query.find_all(exp.Column):
        name = column.name.lower()
        if column.table or not (aliases[name] > 1 or (aliases[name] and name in known)):
            continue
        own = column.find_ancestor(exp.Alias)
        is_ordered_by = isinstance(column.parent, exp.Ordered) and column.find_ancestor(exp.Window) is None
        if not is_ordered_by and (own is None or own.alias.lower() != name):
            raise NotCommonError(name)
