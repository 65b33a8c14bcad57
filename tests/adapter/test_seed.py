"""A processor that begins with sessions from before: no second Start, beats go on, Ends are known for what they are."""

import json

import pytest
from pyspark.sql import Row

from sessionization.core.events import End, EndReason, Platform, Start
from sessionization.core.grid import grid_of
from sessionization.core.state import Closed, Live, Rules, SessionState
from sessionization.spark.codec import STATE_SCHEMA, from_entry, to_seed
from tests.adapter.engine import Engine

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=60_000, late_retention_ms=2_000)
LAYOUTS = pytest.mark.parametrize(("groups", "key"), [(None, "d"), (1, "0")])


def seed(after_ms: int, **sessions: SessionState) -> str:
    entries = [
        {"device_id": "d", "session_id": int(name[1:])} | dict(zip(STATE_SCHEMA.names, from_entry(entry), strict=True))
        for name, entry in sessions.items()
    ]
    # As Spark writes it: what is null is left out.
    told = [{name: value for name, value in entry.items() if value is not None} for entry in entries]
    return json.dumps({"after_ms": after_ms, "entries": told})


def begun(groups: int | None, key: str, after_ms: int, **sessions: SessionState) -> Engine:
    engine = Engine(RULES, groups)
    engine.tester.handle.setGroupingKey(key)
    row = Row(grouping_key=key, seed=seed(after_ms, **sessions))
    engine.processor.handleInitialState((key,), row, engine.tester._getTimerValues())
    return engine


@LAYOUTS
def test_a_live_session_goes_on(groups: int | None, key: str) -> None:
    grid = grid_of(key, 1_000)
    at = grid.after(1_000_000)
    live = Live(at - 5_500, at - 5_400, "a", Platform.PC)
    engine = begun(groups, key, at - 2_500, s7=live)
    assert engine.timers(key) == [at - 2_000]
    key_of = lambda _: key  # noqa: E731
    [beat] = engine.micro_batch(at, [], key_of)
    assert (beat["change"], beat["beat"], beat["missed_beats"], beat["due_ms"]) == ("heartbeat", 6, 2, at)
    rows = engine.micro_batch(
        at + 10, [("d", Start(7, at - 5_500, Platform.PC, at)), ("d", End(7, at, Platform.PC, at))], key_of
    )
    assert [(row["change"], row["end_reason"], row["account_id"]) for row in rows] == [("ended", "reported", "a")]
    assert rows[0]["duplicate_start"] == 1


@LAYOUTS
def test_an_event_in_the_first_micro_batch_meets_what_is_live_and_one_timer_is_left(
    groups: int | None, key: str
) -> None:
    at = grid_of(key, 1_000).after(1_000_000)
    engine = begun(groups, key, at - 2_500, s7=Live(at - 5_500, at - 5_400, None, Platform.PC))
    rows = engine.micro_batch(at, [("d", Start(8, at - 1_000, Platform.PC, at))], lambda _: key)
    assert [(row["session_id"], row["change"]) for row in rows] == [(7, "ended"), (8, "started")]
    assert engine.timers(key) == [at + 1_000]


@LAYOUTS
def test_a_closed_session_is_known_and_forgotten_in_time(groups: int | None, key: str) -> None:
    at = grid_of(key, 1_000).after(1_000_000)
    closed = Closed(at - 9_000, at - 4_000, EndReason.SUPERSEDED, 0, None, None, Platform.PC, at - 500, 3)
    engine = begun(groups, key, at - 400, s7=closed)
    [row] = engine.micro_batch(at, [("d", End(7, at - 4_500, Platform.PC, at, foreground_s=3))], lambda _: key)
    assert (row["change"], row["end_reason"], row["revision"]) == ("ended", "reported", 1)
    assert engine.timers(key) == [at + 2_000]
    assert engine.micro_batch(at + 2_000, [], lambda _: key) == []
    assert engine.state(key) == {}


def test_a_seed_tells_its_instant_and_the_sessions_of_each_device() -> None:
    live = Live(1, 2, None, Platform.CONSOLE)
    assert to_seed(seed(5, s7=live, s8=live)) == (5, {"d": {7: live, 8: live}})
