"""A replayed history gives the rows of the stream, whatever the clocks of its micro-batches."""

from collections import defaultdict
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sessionization.core.events import Change, ChangeKind, Event
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS
from sessionization.spark.replay.device_replay import replay
from sessionization.spark.replay.micro_batch_clock import ClockBuilder, MicroBatchClock
from sessionization.spark.replay.stream_clock import spans
from tests.replay.clocks import build_clock
from tests.support.histories import start
from tests.support.random_histories import (
    History,
    histories,
    law_settings,
)
from tests.support.reference import SessionRow, session_rows
from tests.support.replayed import any_rules, merge_equal_clocks, streamed_rows


def replayed_rows(rules: Rules, history: History, clock: MicroBatchClock) -> dict[tuple[str, int], SessionRow]:
    events_by_device: dict[str, list[tuple[int, Event]]] = defaultdict(list)
    for batch in history:
        for device_id, event in batch.rows:
            events_by_device[device_id].append((batch.now_ms, event))
    changes: list[tuple[str, Change]] = []
    for device_id, moments in events_by_device.items():
        batches = [
            (now_ms, [event for _, event in group]) for now_ms, group in groupby(moments, key=lambda moment: moment[0])
        ]
        replayed = replay(batches, grid_for_key(device_id, rules.heartbeat_ms), rules, clock)
        changes += ((device_id, change) for change in replayed)
    return session_rows(changes)


@law_settings(300)
@given(any_rules, histories(max_batches=30, max_rows=4))
def test_a_replay_gives_the_rows_of_the_stream(rules: Rules, history: History) -> None:
    history = merge_equal_clocks(history)
    clocks = [batch.now_ms for batch in history]
    clock = build_clock(([], [], []), (clocks, [0] * len(clocks)), until_ms=clocks[-1])
    assert replayed_rows(rules, history, clock) == streamed_rows(rules, history)


def test_a_replay_leaves_heartbeats_out() -> None:
    rules = Rules()
    clock = MicroBatchClock(until_ms=10**9)
    changes = replay([(5_000, [start(1, 4_000)])], grid_for_key("d", rules.heartbeat_ms), rules, clock)
    assert [(change.kind, change.end_reason) for change in changes] == [
        (ChangeKind.STARTED, None),
        (ChangeKind.ENDED, "timed_out"),
    ]


@pytest.mark.parametrize(
    ("ingested_ms", "expected_ms"),
    [
        (100, 3_000),
        (2_999, 3_000),
        (3_200, 6_000),
        (3_499, 6_000),
        (3_500, 7_777),
        (7_700, 7_777),
        (8_500, 9_000),
        (9_200, 10_000),
    ],
)
def test_a_message_was_read_by_the_first_micro_batch_that_read_one_at_least_as_new(
    ingested_ms: int, expected_ms: int
) -> None:
    known = [3_000, 5_000, 6_000, 7_777, 9_000], [1, 0, 1, 1, 0]
    clock = build_clock(([7_777, 3_000], [3_500, 500], [4_000, 900]), known, until_ms=20_000)
    assert clock.of_messages(np.array([ingested_ms])).tolist() == [expected_ms]


def test_there_are_no_micro_batches_while_the_stream_was_down() -> None:
    clock = build_clock(([], [], []), ([3_000, 60_000], [0, 0]), until_ms=90_000)
    assert [clock.at_or_after(ms) for ms in (1_500, 2_900, 3_001, 60_001)] == [2_000, 3_000, 60_000, 61_000]


def test_a_message_older_than_the_pruned_tables_was_read_when_it_was_ingested() -> None:
    changed = [90_000], [80_000], [85_000]
    known = [90_000, 91_000], [2, 0]
    pruned, whole = (build_clock(changed, known, until_ms=91_000, is_whole=is_whole) for is_whole in (False, True))
    assert pruned.of_messages(np.array([5_500, 80_000])).tolist() == [6_000, 90_000]
    assert whole.of_messages(np.array([5_500, 80_000])).tolist() == [90_000, 90_000]


@pytest.mark.parametrize("seed", range(40))
def test_a_clock_built_day_by_day_is_the_clock_of_all_days(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    known_ms = np.unique(rng.integers(0, 100_000, rng.integers(0, 40)))
    events = rng.integers(0, 2, len(known_ms))
    changed_ms = np.unique(rng.integers(0, 100_000, rng.integers(0, 20)))
    oldest_ms = np.maximum(changed_ms - rng.integers(0, 30_000, len(changed_ms)), 0)
    newest_ms = np.maximum(oldest_ms, changed_ms - rng.integers(0, 2_000, len(changed_ms)))
    options = {"until_ms": 100_000, "is_whole": bool(seed % 2), "goes_on": bool(seed % 3)}
    whole = build_clock((changed_ms, oldest_ms, newest_ms), (known_ms, events), **options)
    builder = ClockBuilder(tmp_path)
    for begin_ms in range(75_000, -1, -25_000):
        changed, known = ((at >= begin_ms) & (at < begin_ms + 25_000) for at in (changed_ms, known_ms))
        builder.add_earlier(
            (changed_ms[changed], oldest_ms[changed], newest_ms[changed]), (known_ms[known], events[known])
        )
    stored = builder.build(**options)
    loaded = stored.load(lambda name: str(tmp_path / name))
    for column in ("known", "took", "up_to"):
        assert getattr(loaded, column).tolist() == getattr(whole, column).tolist()
    assert (loaded.from_ms, loaded.until_ms, loaded.goes_on) == (whole.from_ms, whole.until_ms, whole.goes_on)
    assert stored.micro_batches == len(whole.took)
    assert builder.first_changed_ms == (min(changed_ms) if len(changed_ms) else None)


@pytest.mark.parametrize(
    ("micro_batches", "expected"),
    [
        ({}, [(5, 10 * DAY_MS)]),
        ({3: 90_000}, [(5, 10 * DAY_MS)]),
        (
            {9: 90_000, 7: 90_000, 6: 10, 3: 200_000, 0: 200_000},
            [(7 * DAY_MS, 10 * DAY_MS), (3 * DAY_MS, 7 * DAY_MS - 1), (5, 3 * DAY_MS - 1)],
        ),
        ({12: 200_000, 2: 200_000}, [(2 * DAY_MS, 10 * DAY_MS), (5, 2 * DAY_MS - 1)]),
    ],
)
def test_the_time_of_a_stream_is_divided_by_its_micro_batches(
    micro_batches: dict[int, int], expected: list[tuple[int, int]]
) -> None:
    assert list(spans(5, 10 * DAY_MS, micro_batches)) == expected
