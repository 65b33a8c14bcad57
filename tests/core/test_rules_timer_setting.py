"""The timers of a grouping key (docs/session-rules.md): for which instants they are set, and that none is moved."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import ChangeKind
from sessionization.core.heartbeat_grid import Grid, grid_for_key
from sessionization.core.session_state import Rules, next_timer_ms
from tests.support.core_driver import Driver
from tests.support.histories import (
    EIGHT,
    HOUR,
    MINUTE,
    NINE,
    NOON,
    NOW,
    REPORTED,
    RULES,
    SECOND,
    TEN,
    SessionState,
    closed,
    end,
    live,
    pending,
    start,
)

PHASE = 7 * SECOND
BEAT = RULES.heartbeat_ms
GRID = Grid(BEAT, PHASE)
INSTANT = NOW + PHASE
RETENTION = RULES.late_retention_ms
DEVICE_GRID = grid_for_key("device", BEAT)


def next_timer(*entries: SessionState, now_ms: int) -> int | None:
    return next_timer_ms(entries, now_ms, GRID, RULES)


def test_with_nothing_remembered_no_timer_is_needed() -> None:
    assert next_timer(now_ms=NOW) is None


@pytest.mark.parametrize(
    ("now_ms", "timer_ms"),
    [
        (INSTANT - 1, INSTANT),
        (INSTANT, INSTANT + BEAT),
        (INSTANT + 1, INSTANT + BEAT),
        (INSTANT + BEAT - 1, INSTANT + BEAT),
    ],
)
def test_while_a_session_is_live_the_timer_is_the_next_instant_whatever_else_is_remembered(
    now_ms: int, timer_ms: int
) -> None:
    assert next_timer(live(NINE), now_ms=now_ms) == timer_ms
    assert next_timer(closed(EIGHT, NINE, closed_ms=NOW), live(NINE), pending(NOON), now_ms=now_ms) == timer_ms


@pytest.mark.parametrize("make", ["closed", "pending"])
@pytest.mark.parametrize(
    ("deadline_ms", "timer_ms"),
    [
        (INSTANT + 5 * BEAT, INSTANT + 5 * BEAT),
        (INSTANT + 5 * BEAT + 1, INSTANT + 6 * BEAT),
        (INSTANT + 5 * BEAT - 1, INSTANT + 5 * BEAT),
    ],
)
def test_with_no_live_session_the_timer_is_the_first_instant_at_or_after_the_deadline(
    make: str, deadline_ms: int, timer_ms: int
) -> None:
    since_ms = deadline_ms - RETENTION
    entry = closed(NINE, TEN, closed_ms=since_ms) if make == "closed" else pending(TEN, seen_ms=since_ms)
    assert next_timer(entry, now_ms=NOW) == timer_ms


@given(key=st.text(), beat_ms=st.integers(1, 100_000), at_ms=st.integers(-(2**60), 2**60))
def test_the_grid_of_a_key_is_its_checksum_modulo_the_heartbeat(key: str, beat_ms: int, at_ms: int) -> None:
    grid = grid_for_key(key, beat_ms)
    phase_ms = crc32(key.encode("utf-8")) % beat_ms
    for instant_ms in (grid.at_or_before(at_ms), grid.at_or_after(at_ms), grid.after(at_ms)):
        assert (instant_ms - phase_ms) % beat_ms == 0
    assert grid.at_or_before(at_ms) <= at_ms < grid.after(at_ms) == grid.at_or_before(at_ms) + beat_ms
    assert at_ms <= grid.at_or_after(at_ms) < at_ms + beat_ms
    assert grid.steps(grid.at_or_before(at_ms), grid.after(at_ms) + 2 * beat_ms) == 3


@pytest.mark.parametrize("late_ms", [0, 1, 3 * BEAT + 5])
def test_a_due_timer_is_left_alone_by_events_and_fires_in_the_same_micro_batch(late_ms: int) -> None:
    driver = Driver(RULES)
    driver.micro_batch(NOW, [("device", start(1, NINE))])
    (due_ms,) = driver.timers["device"]
    changes = driver.micro_batch(due_ms + late_ms, [("device", start(1, NINE))])
    assert [change.kind for _, change in changes] == [ChangeKind.HEARTBEAT]
    assert driver.timers == {"device": {DEVICE_GRID.after(due_ms + late_ms)}}


def test_a_device_with_events_in_every_micro_batch_still_beats_and_times_out() -> None:
    driver = Driver(Rules(session_timeout_ms=2 * MINUTE))
    kinds = [
        change.kind
        for now_ms in range(NOW, NOW + 3 * MINUTE, SECOND)
        for _, change in driver.micro_batch(now_ms, [("device", start(1, NINE))])
    ]
    assert kinds == [ChangeKind.STARTED, *[ChangeKind.HEARTBEAT] * 4, ChangeKind.ENDED]


def test_events_are_applied_before_the_timer_of_the_same_micro_batch() -> None:
    driver = Driver(RULES)
    driver.micro_batch(NOW, [("device", start(1, NINE))])
    changes = driver.micro_batch(NOW + HOUR, [("device", end(1, TEN))])
    assert [(change.kind, change.end_reason) for _, change in changes] == [(ChangeKind.ENDED, REPORTED)]
    assert driver.timers == {"device": {DEVICE_GRID.at_or_after(NOW + HOUR + RETENTION)}}


def test_an_event_sets_its_own_timer_and_leaves_the_others() -> None:
    driver = Driver(RULES)
    driver.micro_batch(NOW, [("device", end(1, TEN))])
    deadline_ms, beat_ms = DEVICE_GRID.at_or_after(NOW + RETENTION), DEVICE_GRID.after(NOW + 1)
    assert driver.timers == {"device": {deadline_ms}}
    driver.micro_batch(NOW + 1, [("device", start(2, NINE))])
    assert driver.timers == {"device": {beat_ms, deadline_ms}}
    driver.micro_batch(NOW + 2, [("device", end(2, TEN))])
    assert driver.timers == {"device": {beat_ms, deadline_ms}}
    assert driver.micro_batch(beat_ms, []) == []
    assert driver.timers == {"device": {deadline_ms}}


def test_a_timer_that_fires_for_nothing_emits_nothing_and_sets_the_next_one() -> None:
    driver = Driver(RULES)
    driver.micro_batch(NOW, [("device", start(1, NINE))])
    driver.micro_batch(NOW + 1, [("device", end(1, TEN))])
    needless_ms = min(driver.timers["device"])
    assert driver.micro_batch(needless_ms, []) == []
    assert driver.timers == {"device": {DEVICE_GRID.at_or_after(NOW + 1 + RETENTION)}}
