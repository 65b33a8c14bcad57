"""Timers (docs/session-rules.md): for which instants they are set, and what a firing does (T1 to T4).

At exact instants of a grid and of a session; no timer is moved.
"""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.device_sessions import Outcome, Tally
from sessionization.core.events import Change, ChangeKind, EndReason
from sessionization.core.heartbeat_grid import Firing, Grid, grid_for_key
from sessionization.core.session_rules import on_timer
from sessionization.core.session_state import Rules, Sessions, SessionState, next_timer_ms
from tests.support.core_driver import Driver
from tests.support.histories import (
    CONSOLE,
    EARLIER,
    EIGHT,
    HOUR,
    MINUTE,
    NINE,
    NOON,
    NOW,
    ORPHANED,
    PC,
    REPORTED,
    RULES,
    SECOND,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    check_event,
    closed,
    end,
    ended,
    live,
    pending,
    start,
)

BEAT_MS = RULES.heartbeat_ms
GRID = Grid(BEAT_MS, phase_ms=7 * SECOND)
OPENED = NOW
FIRST, SECOND_DUE, THIRD = (NOW + 7 * SECOND + k * BEAT_MS for k in range(3))
TIMEOUT = OPENED + RULES.session_timeout_ms
DEADLINE = EARLIER + RULES.late_retention_ms
DEVICE_GRID = grid_for_key("device", BEAT_MS)


def fire(state_before: Sessions, now_ms: int, set_for_ms: int | None = None) -> Outcome:
    """Fires a timer at `now_ms` that was set for `set_for_ms`, or without it for the newest grid instant."""
    fired_ms = GRID.at_or_before(now_ms) if set_for_ms is None else set_for_ms
    return on_timer(state_before, Firing.from_timer(fired_ms, now_ms, GRID), RULES)


def processed_at(now_ms: int, change: Change) -> Change:
    return change._replace(processed_ms=now_ms)


def heartbeat(now_ms: int, due_ms: int, beat: int, missed_beats: int = 0) -> Change:
    return Change(
        1, None, PC, ChangeKind.HEARTBEAT, now_ms, NINE,
        duration_ms=now_ms - OPENED, beat=beat, missed_beats=missed_beats, due_ms=due_ms,
    )  # fmt: skip


LIVE = {1: live(NINE, OPENED)}


@pytest.mark.parametrize("now_ms", [TIMEOUT, TIMEOUT + 1, TIMEOUT + HOUR])
def test_t1_a_session_times_out_once_it_has_been_live_for_the_session_timeout(now_ms: int) -> None:
    outcome = fire({1: live(NINE, OPENED, "anna", CONSOLE)}, now_ms)
    ended_ms = NINE + RULES.session_timeout_ms
    assert outcome.changes == [
        processed_at(now_ms, ended(1, NINE, ended_ms, TIMED_OUT, account_id="anna", platform=CONSOLE))
    ]
    assert outcome.sessions == {
        1: closed(NINE, ended_ms, TIMED_OUT, closed_ms=now_ms, account_id="anna", platform=CONSOLE)
    }
    assert outcome.tally == Tally()


def test_t1_a_millisecond_before_the_timeout_the_session_still_beats() -> None:
    outcome = fire(LIVE, TIMEOUT - 1)
    assert [change.kind for change in outcome.changes] == [ChangeKind.HEARTBEAT]
    assert outcome.sessions == LIVE


def test_t1_the_timeout_counts_from_the_opening_not_from_the_event_time_of_the_start() -> None:
    started_days_ago = {1: live(-NOON, OPENED)}
    assert fire(started_days_ago, TIMEOUT - 1).sessions == started_days_ago


def test_t2_the_first_instant_after_opening_is_beat_one() -> None:
    outcome = fire(LIVE, FIRST)
    assert outcome.changes == [heartbeat(FIRST, due_ms=FIRST, beat=1)]
    assert outcome.sessions == LIVE


def test_t2_a_timer_on_time_gives_the_next_beat_and_no_missed_beats() -> None:
    assert fire(LIVE, SECOND_DUE + 400).changes == [heartbeat(SECOND_DUE + 400, due_ms=SECOND_DUE, beat=2)]
    assert fire(LIVE, THIRD).changes == [heartbeat(THIRD, due_ms=THIRD, beat=3)]


@pytest.mark.parametrize(
    ("now_ms", "due_ms", "beat", "missed_beats"),
    [
        (SECOND_DUE - 1, FIRST, 1, 0),
        (SECOND_DUE, SECOND_DUE, 2, 1),
        (THIRD - 1, SECOND_DUE, 2, 1),
        (THIRD, THIRD, 3, 2),
        (THIRD + 10 * BEAT_MS + 1, THIRD + 10 * BEAT_MS, 13, 12),
    ],
)
def test_t2_a_late_timer_gives_one_heartbeat_for_the_newest_instant(
    now_ms: int, due_ms: int, beat: int, missed_beats: int
) -> None:
    assert fire(LIVE, now_ms, set_for_ms=FIRST).changes == [heartbeat(now_ms, due_ms, beat, missed_beats)]


def test_t2_a_session_opened_after_the_timer_was_due_has_no_missed_beats() -> None:
    opened_on_an_instant = {1: live(NINE, opened_ms=THIRD)}
    assert fire(opened_on_an_instant, THIRD, set_for_ms=FIRST).changes == []
    assert fire(opened_on_an_instant, THIRD + BEAT_MS - 1, set_for_ms=FIRST).changes == []
    [change] = fire(opened_on_an_instant, THIRD + BEAT_MS, set_for_ms=FIRST).changes
    assert (change.due_ms, change.beat, change.missed_beats) == (THIRD + BEAT_MS, 1, 0)


def test_t2_a_timer_set_before_the_heartbeat_interval_changed_counts_instants_of_the_new_grid() -> None:
    [change] = fire(LIVE, THIRD, set_for_ms=SECOND_DUE - 1).changes
    assert (change.due_ms, change.beat, change.missed_beats) == (THIRD, 3, 1)


@pytest.mark.parametrize("reason", [REPORTED, SUPERSEDED, TIMED_OUT])
def test_t3_a_closed_session_is_forgotten_without_a_change_at_its_deadline(reason: EndReason) -> None:
    state_before: dict[int, SessionState] = {1: closed(NINE, TEN, reason, closed_ms=EARLIER)}
    for now_ms in (DEADLINE, DEADLINE + 1):
        outcome = fire(state_before, now_ms)
        assert (outcome.changes, outcome.sessions) == ([], {})
    outcome = fire(state_before, DEADLINE - 1)
    assert (outcome.changes, outcome.sessions) == ([], state_before)


def test_t4_a_pending_end_is_orphaned_and_forgotten_at_its_deadline() -> None:
    state_before: dict[int, SessionState] = {
        1: pending(TEN, foreground_s=60, seen_ms=EARLIER, account_id="anna", platform=CONSOLE)
    }
    for now_ms in (DEADLINE, DEADLINE + 1):
        outcome = fire(state_before, now_ms)
        orphan = ended(1, None, TEN, ORPHANED, foreground_s=60, account_id="anna", platform=CONSOLE)
        assert outcome.changes == [processed_at(now_ms, orphan)]
        assert outcome.sessions == {}
        assert outcome.tally == Tally()
    outcome = fire(state_before, DEADLINE - 1)
    assert (outcome.changes, outcome.sessions) == ([], state_before)


def test_one_firing_applies_to_every_entry_its_own_rule() -> None:
    state_before: dict[int, SessionState] = {
        1: live(NINE, OPENED),
        2: closed(EIGHT, NINE, closed_ms=EARLIER, closing_order=0),
        3: closed(EIGHT, NINE, closed_ms=NOW, closing_order=1),
        4: pending(NOON, seen_ms=EARLIER, closing_order=2),
        5: pending(NOON, seen_ms=NOW, closing_order=3),
    }
    now_ms = GRID.at_or_after(DEADLINE)
    outcome = fire(state_before, now_ms)
    assert [(change.session_id, change.kind, change.end_reason) for change in outcome.changes] == [
        (1, ChangeKind.HEARTBEAT, None),
        (4, ChangeKind.ENDED, ORPHANED),
    ]
    assert outcome.sessions == {session_id: state_before[session_id] for session_id in (1, 3, 5)}


def test_an_entry_past_its_deadline_answers_events_until_a_timer_forgets_it() -> None:
    long_past = EARLIER - HOUR
    state_before = {1: closed(NINE, TEN, closed_ms=long_past), 2: pending(NOON, seen_ms=long_past)}
    check_event(state_before, start(1, NINE), emitted=[], state_after=state_before)
    check_event(state_before, end(2, NOON), emitted=[], state_after=state_before)


def next_timer(*entries: SessionState, now_ms: int) -> int | None:
    return next_timer_ms(entries, now_ms, GRID, RULES)


def test_with_nothing_remembered_no_timer_is_needed() -> None:
    assert next_timer(now_ms=NOW) is None


@pytest.mark.parametrize(
    ("now_ms", "timer_ms"),
    [
        (FIRST - 1, FIRST),
        (FIRST, FIRST + BEAT_MS),
        (FIRST + 1, FIRST + BEAT_MS),
        (FIRST + BEAT_MS - 1, FIRST + BEAT_MS),
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
        (FIRST + 5 * BEAT_MS, FIRST + 5 * BEAT_MS),
        (FIRST + 5 * BEAT_MS + 1, FIRST + 6 * BEAT_MS),
        (FIRST + 5 * BEAT_MS - 1, FIRST + 5 * BEAT_MS),
    ],
)
def test_with_no_live_session_the_timer_is_the_first_instant_at_or_after_the_deadline(
    make: str, deadline_ms: int, timer_ms: int
) -> None:
    since_ms = deadline_ms - RULES.late_retention_ms
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


def test_a_device_with_events_in_every_micro_batch_still_beats_and_times_out() -> None:
    driver = Driver(Rules(session_timeout_ms=2 * MINUTE))
    kinds = [
        change.kind
        for now_ms in range(NOW, NOW + 3 * MINUTE, SECOND)
        for _, change in driver.micro_batch(now_ms, [("device", start(1, NINE))])
    ]
    assert kinds == [ChangeKind.STARTED, *[ChangeKind.HEARTBEAT] * 4, ChangeKind.ENDED]


def test_an_event_sets_its_own_timer_and_leaves_the_others() -> None:
    driver = Driver(RULES)
    driver.micro_batch(NOW, [("device", end(1, TEN))])
    deadline_ms, beat_ms = DEVICE_GRID.at_or_after(NOW + RULES.late_retention_ms), DEVICE_GRID.after(NOW + 1)
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
    assert driver.timers == {"device": {DEVICE_GRID.at_or_after(NOW + 1 + RULES.late_retention_ms)}}
