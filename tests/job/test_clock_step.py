"""A clock that was ahead and is set back: the job detects it, and the operator resets the timers of called keys."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.job.clock_step import ClockStep, ClockStepDetector, restart_and_wake
from sessionization.spark.checkpoint.folder import QUERIES, SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.ticks import WakeUp, rewind_tick_source
from sessionization.spark.output.progress import BatchProgress, Percentiles
from tests.operator.engine import Engine
from tests.operator.test_processor import start

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=60_000, late_retention_ms=2_000)
AHEAD_MS = 30_000


def wake(engine: Engine, key: str, now_ms: int) -> list[Row]:
    engine.tester._currentProcessingTimeMs = now_ms
    return engine.tester.test(key, [Row("grouping_key", "event")(key, None)])


def beats(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [
        (row["session_id"], row["due_ms"], row["beat"], row["missed_beats"], row["duration_ms"])
        for row in rows
        if row["change"] == "heartbeat"
    ]


@pytest.mark.parametrize(("groups", "key"), [(None, "d"), (1, "0")])
def test_a_called_key_beats_at_the_next_grid_instant(groups: int | None, key: str) -> None:
    now_ms = grid_for_key(key, RULES.heartbeat_ms).after(1_000_000)
    key_of = lambda _: key  # noqa: E731
    engine = Engine(RULES, groups)
    engine.micro_batch(now_ms, [start(1)], key_of)
    engine.micro_batch(now_ms + AHEAD_MS, [], key_of)
    assert engine.timers(key) == [now_ms + AHEAD_MS + 1_000]
    assert wake(engine, key, now_ms + 100) == []
    assert engine.timers(key) == [now_ms + 1_000]
    assert beats(engine.micro_batch(now_ms + 1_000, [], key_of)) == [(1, now_ms + 1_000, 1, 0, 1_000)]
    assert wake(engine, key, now_ms + 1_500) == []
    assert engine.timers(key) == [now_ms + 2_000]


@pytest.mark.parametrize(("groups", "key"), [(None, "d"), (1, "0")])
def test_a_session_opened_while_the_clock_was_ahead_beats_and_times_out_by_the_corrected_clock(
    groups: int | None, key: str
) -> None:
    now_ms = grid_for_key(key, RULES.heartbeat_ms).after(1_000_000)
    key_of = lambda _: key  # noqa: E731
    engine = Engine(RULES, groups)
    engine.micro_batch(now_ms + AHEAD_MS, [start(1, now_ms)], key_of)
    wake(engine, key, now_ms)
    assert beats(engine.micro_batch(now_ms + 1_000, [], key_of)) == [(1, now_ms + 1_000, 1, 0, 1_000)]
    [ended] = engine.micro_batch(now_ms + RULES.session_timeout_ms, [], key_of)
    assert ended["end_reason"] == "timed_out"


def test_a_timer_that_is_due_fires_in_the_micro_batch_that_calls_its_key() -> None:
    now_ms = grid_for_key("d", RULES.heartbeat_ms).after(1_000_000)
    engine = Engine(RULES)
    engine.micro_batch(now_ms, [start(1)])
    assert wake(engine, "d", now_ms + 1_000) == []
    assert [row["due_ms"] for row in engine.micro_batch(now_ms + 1_000, [])] == [now_ms + 1_000]
    assert engine.timers("d") == [now_ms + 2_000]


def test_a_called_key_without_state_gets_no_timer() -> None:
    engine = Engine(RULES, 1)
    assert wake(engine, "0", 1_000_000) == []
    assert engine.timers("0") == []


def progress_at(processed_ms: int, query: str = SESSIONIZE) -> BatchProgress:
    return BatchProgress(query, 0, processed_ms, 0, 0, Percentiles(None, None, None))


def test_the_detector_reports_a_step_of_more_than_a_heartbeat_once() -> None:
    detector = ClockStepDetector(100_000, 1_000, lambda: 0)
    for progress in (progress_at(99_000), progress_at(100_500), progress_at(1, "rollup")):
        detector.add(progress)
        assert detector.take() is None
    detector.add(progress_at(90_000))
    detector.add(progress_at(90_500))
    assert detector.take() == ClockStep(10_500, (SESSIONIZE,))
    assert detector.take() is None


def test_the_detector_reports_a_step_of_the_wall_clock_while_no_micro_batch_runs() -> None:
    differences_ms = iter([50_000, 50_000, 49_000, 80_000, 60_000, 60_000])
    detector = ClockStepDetector(100_000, 1_000, lambda: next(differences_ms))
    assert [detector.take() for _ in range(3)] == [None] * 3
    assert detector.take() == ClockStep(20_000, QUERIES)
    detector.add(progress_at(80_500))
    assert detector.take() is None, "the restart has answered this step"


def idle_query() -> Any:
    """A query that waits for its next trigger."""
    query = SimpleNamespace(isActive=True, status={"isTriggerActive": False}, recentProgress=(), lastProgress=None)
    query.stop = lambda: setattr(query, "isActive", False)
    return query


@pytest.mark.parametrize(("is_stopped", "started"), [(False, ["sessionize", "archive", "rollup"]), (True, [])])
def test_all_queries_restart_unless_the_job_is_stopping(tmp_path: Path, *, is_stopped: bool, started: list) -> None:
    (tmp_path / SESSIONIZE / "offsets").mkdir(parents=True)
    checkpoint: Any = SimpleNamespace(folder=tmp_path, layout=StateLayout(2))
    queries: Any = {name: idle_query() for name in QUERIES}
    restarted, messages, ended, stop = [], [], [], threading.Event()
    if is_stopped:
        stop.set()
    step = ClockStep(20_000, QUERIES)
    pipeline: Any = SimpleNamespace(
        queries=queries, start_query=lambda *call: restarted.append(call), end_rests=ended.extend
    )
    context: Any = SimpleNamespace(spark=None, checkpoint=checkpoint, say=messages.append)
    restart_and_wake(context, pipeline, step, stop)
    wakes = [WakeUp(0, ("0", "1")), None, None]
    assert restarted == list(zip(started, wakes, strict=False))
    assert ended == (started or [SESSIONIZE])
    assert [query.isActive for query in queries.values()] == [is_stopped] * 3
    assert messages[0].startswith("the clock went back by 20 s: ")


def write_tick_offset(query: Path, tick: int, began_ms: int) -> Path:
    (query / "offsets").mkdir(parents=True)
    (query / "offsets" / "0").write_text(f'v1\n{{"batchTimestampMs": 1}}\n{{"logOffset": 3}}\n{tick}')
    for source, metadata in (("0", '{"path": "f"}'), ("1", str(began_ms))):
        (query / "sources" / source).mkdir(parents=True)
        (query / "sources" / source / "0").write_text(f"v1\n{metadata}")
    return query / "sources" / "1" / "0"


@pytest.mark.parametrize(("tick", "began_ms"), [(60, 940_001), (60, 940_000), (0, 2_000_000)])
def test_the_tick_source_counts_no_fewer_seconds_than_were_read(tmp_path: Path, tick: int, began_ms: int) -> None:
    file = write_tick_offset(tmp_path, tick, began_ms)
    file.with_name(".0.crc").write_bytes(b"old")
    rewind_tick_source(tmp_path, now_ms=1_000_000)
    is_ahead = began_ms + tick * 1_000 > 1_000_000
    assert file.read_text() == f"v1\n{1_000_000 - (tick + 1) * 1_000 if is_ahead else began_ms}"
    assert file.with_name(".0.crc").exists() is not is_ahead
    assert (tmp_path / "sources" / "0" / "0").read_text() == 'v1\n{"path": "f"}'
