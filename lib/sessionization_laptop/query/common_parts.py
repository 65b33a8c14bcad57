"""The parts of a query that mean the same in Spark and in DuckDB, and the operands with which they do.

What is not here is Spark's: what rounds, divides by zero, or compares a text with a number differs between the two.
A new part needs a query in tests/local/test_common_sql.py, which compares both engines.
"""

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

Rule = Callable[[Any], bool]

_KINDS = {
    "truth": {"BOOLEAN"},
    "number": {"TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE"},
    "text": {"VARCHAR", "TEXT"},
    "instant": {"TIMESTAMP", "TIMESTAMPTZ"},
    "day": {"DATE"},
}
"""The kinds of values, each with its types; values of other types are only shown."""
_INTEGERS = {"BIGINT", "INT"}
_MOST_DIGITS = 9
_FORMS = {
    "instant": re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?"),
    "day": re.compile(r"\d{4}-\d\d-\d\d"),
}
"""Texts that both read as the same instant, or as the same day."""
_TRUNCATED_TO = {"MINUTE", "HOUR", "DAY", "MONTH", "YEAR"}
_ADDED = {"DAY", "DAYS", "HOUR", "HOURS", "MINUTE", "MINUTES", "SECOND", "SECONDS"}


def kind_of(node: exp.Expr) -> str | None:
    """Which of `_KINDS` a value is of."""
    name = type_of(node)
    return next((kind for kind, names in _KINDS.items() if name in names), None)


def type_of(node: exp.Expr) -> str:
    return node.type.this.name if isinstance(node.type, exp.DataType) else ""


def is_common(node: exp.Expr) -> bool:
    """Whether a part of a typed query means the same in both."""
    rule = _RULES.get(type(node))
    return rule is not None and rule(node)


def _always(_: exp.Expr) -> bool:
    return True


def _operands_are(kind: str) -> Rule:
    def rule(node: exp.Expr) -> bool:
        first = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
        return kind_of(first) == kind and (not isinstance(node, exp.Binary) or kind_of(node.expression) == kind)

    return rule


def _alike(*values: exp.Expr | None) -> bool:
    """Whether all values are of one kind."""
    kinds = {kind_of(value) for value in values if value is not None and not isinstance(value, exp.Null)}
    return len(kinds) == 1 and None not in kinds


def _comparable(*values: exp.Expr) -> bool:
    """Whether all values are of one kind; a text may stand for an instant or a day."""
    others = [value for value in values if not (isinstance(value, exp.Literal) and value.is_string)]
    form = _FORMS.get(kind_of(others[0]) or "") if others else None
    if form is None:
        return _alike(*values)
    return _alike(*others) and all(form.fullmatch(value.name) for value in values if value not in others)


def _column(node: exp.Column) -> bool:
    if isinstance(node.parent, exp.Ordered) and type_of(node) in {"", "UNKNOWN"}:
        return True  # the alias that `ORDER BY 1` stands for
    return kind_of(node) is not None or isinstance(node.parent, exp.Select | exp.Alias)  # a struct is only shown


def _join(node: exp.Join) -> bool:
    on = node.args.get("on")
    return not node.kind and not node.method and (on is None or kind_of(on) == "truth")


def _case(node: exp.Case) -> bool:
    return node.this is None and _alike(*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default"))


def _if(node: exp.If) -> bool:
    is_branch = isinstance(node.parent, exp.Case)
    return kind_of(node.this) == "truth" and (is_branch or _alike(node.args["true"], node.args.get("false")))


def _sum(node: exp.Binary) -> bool:
    match kind_of(node.this), node.expression:
        case "instant", exp.Interval():
            return True
        case "day", exp.Literal(is_string=False):
            return True
    return {kind_of(node.this), kind_of(node.expression)} == {"number"}


def _quotient(node: exp.Binary) -> bool:
    """A number by one that is no zero: by zero Spark raises an error, and DuckDB returns null."""
    by = node.expression
    is_zero = not isinstance(by, exp.Literal) or by.is_string or not by.name.strip("0")
    return (
        not is_zero and kind_of(node.this) == "number" and (isinstance(node, exp.Div) or type_of(node.this) != "DOUBLE")
    )


def _cast(node: exp.Cast) -> bool:
    to, given = node.to.this.name, node.this
    if isinstance(given, exp.Literal) and given.is_string:
        form = _FORMS.get(kind_of(node) or "")
        return form is not None and form.fullmatch(given.name) is not None
    return (kind_of(given), to) == ("instant", "DATE") or (kind_of(given) == "number" and to in _INTEGERS)


def _truncated(node: exp.TimestampTrunc) -> bool:
    return kind_of(node.this) == "instant" and node.text("unit").upper() in _TRUNCATED_TO


_RULES: dict[type[exp.Expr], Rule] = {
    # clauses and names
    **dict.fromkeys(
        (exp.Select, exp.From, exp.Group, exp.Order, exp.Ordered, exp.Limit, exp.Distinct, exp.With), _always
    ),
    **dict.fromkeys((exp.CTE, exp.Subquery, exp.Table, exp.TableAlias, exp.Alias, exp.Identifier, exp.Paren), _always),
    exp.Column: _column,
    exp.Join: _join,
    exp.Where: _operands_are("truth"),
    exp.Having: _operands_are("truth"),
    exp.Filter: _always,  # its condition is a Where
    exp.Window: lambda node: node.args.get("spec") is None,
    exp.Star: lambda node: isinstance(node.parent, exp.Count),  # the others are columns by now
    # values
    **dict.fromkeys((exp.Null, exp.Boolean, exp.CurrentTimestamp, exp.CurrentDate, exp.DataType, exp.Var), _always),
    exp.Literal: lambda node: node.is_string or (node.name.isdigit() and len(node.name) <= _MOST_DIGITS),
    exp.Interval: lambda node: node.text("unit").upper() in _ADDED,
    # conditions
    **dict.fromkeys((exp.And, exp.Or, exp.Not), _operands_are("truth")),
    **dict.fromkeys(
        (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ),
        lambda node: _comparable(node.this, node.expression),
    ),
    exp.Is: _always,
    exp.Between: lambda node: _comparable(node.this, node.args["low"], node.args["high"]),
    exp.In: lambda node: bool(node.expressions) and _comparable(node.this, *node.expressions),
    exp.Like: lambda node: kind_of(node.this) == "text" and isinstance(node.expression, exp.Literal),
    # functions
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: lambda node: _alike(node.this, *node.expressions),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    exp.DPipe: _operands_are("text"),
    **dict.fromkeys((exp.Add, exp.Sub), _sum),
    **dict.fromkeys((exp.Div, exp.IntDiv, exp.Mod), _quotient),
    **dict.fromkeys((exp.Mul, exp.Neg), _operands_are("number")),
    **dict.fromkeys((exp.UnixMillis, exp.TsOrDsToDate), _operands_are("instant")),
    exp.TimestampTrunc: _truncated,
    # aggregates
    **dict.fromkeys((exp.Count, exp.RowNumber), _always),
    exp.CountIf: _operands_are("truth"),
    **dict.fromkeys((exp.Sum, exp.Avg), _operands_are("number")),
    **dict.fromkeys((exp.Min, exp.Max), lambda node: kind_of(node.this) is not None and not node.expressions),
}
