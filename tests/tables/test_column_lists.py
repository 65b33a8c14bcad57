"""All lists of the columns of `session_changes`, of an event's fields and of the state's fields agree."""

import re
from dataclasses import fields, replace
from typing import Any

import pytest

from sessionization.core.events import Change, ChangeKind, End, EndReason, Event, Platform, Start, _sort_key
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.replay import archived_events
from sessionization.spark.tables import rollup
from sessionization.spark.tables.schemas import FIRST_START, SESSION_CHANGES, SESSIONS, Table
from sessionization.spark.tables.statements import read_statement
from tests.support.oracle_columns import COLUMNS

NAMES = SESSION_CHANGES.column_names
IN_MS = {re.sub("_at$", "_ms", name) for name in NAMES}


def test_the_oracle_compares_every_column() -> None:
    assert set(COLUMNS["session_changes"]) == IN_MS


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        (SESSION_CHANGES, "change", ChangeKind),
        (SESSION_CHANGES, "end_reason", EndReason),
        (SESSIONS, "end_reason", EndReason),
    ],
    ids=["change", "end_reason", "end_reason of sessions"],
)
def test_a_comment_names_every_value(table: Table, column: str, values: type[ChangeKind | EndReason]) -> None:
    comment = next(found.comment for found in table.columns if found.name == column)
    assert [value for value in values if not re.search(rf"\b{value}\b", comment)] == []


def test_the_operator_and_the_core_fill_every_column() -> None:
    assert IN_MS - {"change_date"} <= set(OUTPUT_SCHEMA.names)
    assert {"change" if name == "kind" else name for name in Change._fields} == IN_MS - {
        "device_id", "change_date"
    } | {"labels", "last_active_ms"}  # fmt: skip


def test_the_timeline_shows_every_column_that_a_reader_needs() -> None:
    shown = read_statement("views", "device_timeline").split("FROM (")[0]
    missing = [name for name in NAMES if not re.search(rf"\b{name}\b", shown)]
    assert missing == ["ingested_at", "change_date"]


def test_the_replay_returns_every_column_that_a_row_of_sessions_comes_from() -> None:
    replayed = {re.sub("_ms$", "_at", name) for name in archived_events._CHANGE_SCHEMA.names} - {"kind"}
    assert {*FIRST_START, *rollup.SHOWN_END} - {"rank"} <= replayed


@pytest.mark.parametrize("event", [Start(1, 0, Platform.PC, 0), End(1, 0, Platform.PC, 0)], ids=["Start", "End"])
def test_the_order_of_events_depends_on_every_field(event: Event) -> None:
    """Otherwise a replay could take two events in another order."""
    names = [field.name for field in fields(event)]
    texts = {"platform": Platform.CONSOLE, "account_id": "z", "labels": ("z",)}
    other: dict[str, Any] = dict.fromkeys(names, 9) | texts
    assert [name for name in names if _sort_key(replace(event, **{name: other[name]})) == _sort_key(event)] == []
