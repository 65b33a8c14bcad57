"""End(s, t, foreground): E1 to E4 of docs/session-rules.md, and the bound on a device's entries ("Bounds").

Each as (state before, event) -> (changes, state after).
"""

import pytest

from sessionization.core.device_sessions import Tally
from sessionization.core.events import EndReason
from sessionization.core.session_state import Rules, SessionState
from tests.support.histories import (
    CONSOLE,
    EARLIER,
    EIGHT,
    ELEVEN,
    NINE,
    NOON,
    NOW,
    ONE,
    ORPHANED,
    PC,
    REPORTED,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    apply,
    caused_by,
    check_event,
    closed,
    end,
    ended,
    live,
    pending,
    start,
    started,
)


def test_e1_the_end_of_the_live_session_is_reported() -> None:
    outcome = check_event(
        {1: live(NINE, account_id="anna", platform=CONSOLE)},
        end(1, TEN, foreground_s=60, account_id="ben", platform=PC),
        emitted=[ended(1, NINE, TEN, foreground_s=60, account_id="anna", platform=CONSOLE)],
        state_after={1: closed(NINE, TEN, foreground_s=60, closed_ms=NOW, account_id="anna", platform=CONSOLE)},
    )
    assert outcome.tally == Tally(events=1)


@pytest.mark.parametrize(("at_ms", "ended_ms"), [(EIGHT, NINE), (NINE - 1, NINE), (NINE, NINE), (NINE + 1, NINE + 1)])
def test_e1_an_end_is_never_before_its_start(at_ms: int, ended_ms: int) -> None:
    check_event(
        {1: live(NINE)},
        end(1, at_ms),
        emitted=[ended(1, NINE, ended_ms)],
        state_after={1: closed(NINE, ended_ms, closed_ms=NOW)},
    )


def test_e1_the_account_is_the_ends_if_the_start_had_none() -> None:
    check_event(
        {1: live(NINE)},
        end(1, TEN, account_id="anna"),
        emitted=[ended(1, NINE, TEN, account_id="anna")],
        state_after={1: closed(NINE, TEN, closed_ms=NOW, account_id="anna")},
    )


def test_e1_the_end_of_another_session_does_not_touch_the_live_one() -> None:
    check_event({1: live(NINE)}, end(2, TEN), emitted=[], state_after={1: live(NINE), 2: pending(TEN, seen_ms=NOW)})


@pytest.mark.parametrize("inferred", [SUPERSEDED, TIMED_OUT])
@pytest.mark.parametrize(
    ("at_ms", "ended_ms"),
    [(NINE - 1, NINE), (NINE, NINE), (TEN, TEN), (ELEVEN - 1, ELEVEN - 1), (ELEVEN, ELEVEN), (ELEVEN + 1, ELEVEN)],
)
def test_e2_a_reported_end_replaces_an_inferred_one_and_is_clamped_between_its_start_and_the_next(
    inferred: EndReason, at_ms: int, ended_ms: int
) -> None:
    check_event(
        {1: closed(NINE, TEN + 5, inferred, revision=1), 2: live(ELEVEN)},
        end(1, at_ms, foreground_s=60),
        emitted=[ended(1, NINE, ended_ms, REPORTED, revision=2, foreground_s=60)],
        state_after={1: closed(NINE, ended_ms, REPORTED, revision=2, foreground_s=60), 2: live(ELEVEN)},
    )


def test_e2_a_reported_end_changes_neither_the_deadline_nor_the_order_of_closing() -> None:
    state_before = {
        1: closed(NINE, TEN, TIMED_OUT, closed_ms=EARLIER, closing_order=3),
        2: closed(EIGHT, NINE, closing_order=4),
    }
    session = apply(state_before, end(1, TEN)).sessions[1]
    assert session == closed(NINE, TEN, REPORTED, revision=1, closed_ms=EARLIER, closing_order=3)


def test_e2_the_account_is_the_ends_if_the_start_had_none_and_the_platform_is_the_starts() -> None:
    check_event(
        {1: closed(NINE, TEN, SUPERSEDED)},
        end(1, TEN, account_id="anna", platform=CONSOLE),
        emitted=[ended(1, NINE, TEN, revision=1, account_id="anna")],
        state_after={1: closed(NINE, TEN, revision=1, account_id="anna")},
    )
    check_event(
        {1: closed(NINE, TEN, SUPERSEDED, account_id="anna")},
        end(1, TEN, account_id="ben"),
        emitted=[ended(1, NINE, TEN, revision=1, account_id="anna")],
        state_after={1: closed(NINE, TEN, revision=1, account_id="anna")},
    )


@pytest.mark.parametrize("entry", [closed(NINE, TEN, REPORTED, foreground_s=60), pending(TEN, foreground_s=60)])
@pytest.mark.parametrize("repeated_ms", [EIGHT, TEN, ELEVEN])
def test_e3_a_repeated_end_is_counted_and_changes_nothing_whatever_its_fields(
    entry: SessionState, repeated_ms: int
) -> None:
    repeated = end(1, repeated_ms, foreground_s=90, account_id="another", platform=CONSOLE)
    outcome = check_event({1: entry}, repeated, emitted=[], state_after={1: entry})
    assert outcome.tally == Tally(events=1, duplicate_end=1)


def test_e4_an_end_without_its_start_becomes_a_pending_end() -> None:
    outcome = check_event(
        {},
        end(1, TEN, foreground_s=60, account_id="anna", platform=CONSOLE),
        emitted=[],
        state_after={1: pending(TEN, foreground_s=60, seen_ms=NOW, account_id="anna", platform=CONSOLE)},
    )
    assert outcome.tally == Tally(events=1)


def test_e4_then_s2_the_session_is_complete_and_the_starts_account_is_preferred() -> None:
    waiting = apply({}, end(1, TEN, foreground_s=60, account_id="anna", platform=CONSOLE)).sessions
    check_event(
        waiting,
        start(1, NINE, platform=PC),
        emitted=[started(1, NINE, "anna"), ended(1, NINE, TEN, foreground_s=60, account_id="anna")],
        state_after={1: closed(NINE, TEN, foreground_s=60, closed_ms=NOW, account_id="anna")},
    )
    check_event(
        waiting,
        start(1, NINE, "ben"),
        emitted=[started(1, NINE, "ben"), ended(1, NINE, TEN, foreground_s=60, account_id="ben")],
        state_after={1: closed(NINE, TEN, foreground_s=60, closed_ms=NOW, account_id="ben")},
    )


TWO = Rules(max_sessions_per_device=2)


def test_up_to_the_bound_nothing_is_forgotten() -> None:
    outcome = apply({1: closed(EIGHT, NINE)}, start(2, TEN), rules=TWO)
    assert set(outcome.sessions) == {1, 2}
    assert outcome.tally == Tally(events=1)


@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_beyond_the_bound_the_session_closed_first_is_forgotten_without_a_change(first: int, second: int) -> None:
    state_before = {first: closed(EIGHT, NINE, closing_order=4), second: closed(EIGHT, NINE, closing_order=5)}
    outcome = apply(state_before, start(3, TEN), rules=TWO)
    assert outcome.changes == caused_by(start(3, TEN), [started(3, TEN)])
    assert set(outcome.sessions) == {second, 3}
    assert outcome.tally == Tally(events=1, evicted=1)


def test_closed_first_means_by_the_order_applied_not_by_event_time() -> None:
    outcome = apply({}, start(2, NINE), end(2, TEN), now_ms=EARLIER, rules=TWO)
    outcome = apply(outcome.sessions, start(1, EIGHT), end(1, EIGHT), now_ms=EARLIER, rules=TWO)
    outcome = apply(outcome.sessions, start(3, NOON), rules=TWO)
    assert set(outcome.sessions) == {1, 3}


def test_a_closed_session_is_forgotten_before_a_pending_end_seen_earlier() -> None:
    outcome = apply(
        {1: pending(NINE, closing_order=0), 2: closed(EIGHT, NINE, closing_order=1)}, start(3, TEN), rules=TWO
    )
    assert set(outcome.sessions) == {1, 3}
    assert outcome.tally == Tally(events=1, evicted=1)


def test_without_closed_sessions_the_pending_end_seen_first_is_orphaned() -> None:
    state_before = {
        1: pending(TEN, closing_order=5),
        2: pending(NINE, foreground_s=60, account_id="anna", closing_order=4),
    }
    outcome = apply(state_before, end(3, NOON), rules=TWO)
    assert outcome.changes == caused_by(
        end(3, NOON), [ended(2, None, NINE, ORPHANED, foreground_s=60, account_id="anna")]
    )
    assert set(outcome.sessions) == {1, 3}
    assert outcome.tally == Tally(events=1, evicted=1)


def test_the_bound_applies_after_each_event_so_later_events_do_not_find_forgotten_entries() -> None:
    outcome = apply({}, end(1, NINE), end(2, TEN), start(1, ELEVEN), rules=ONE)
    assert [(change.session_id, change.end_reason) for change in outcome.changes] == [
        (1, ORPHANED),
        (1, None),
        (2, ORPHANED),
    ]
    assert outcome.sessions == {1: live(ELEVEN, opened_ms=NOW)}
    assert outcome.tally == Tally(events=3, evicted=2)


def test_a_live_session_is_never_forgotten() -> None:
    outcome = apply({1: live(NINE)}, end(2, TEN), rules=ONE)
    assert outcome.changes == caused_by(end(2, TEN), [ended(2, None, TEN, ORPHANED)])
    assert outcome.sessions == {1: live(NINE)}
    outcome = apply({1: live(NINE)}, start(2, EIGHT), rules=ONE)
    assert outcome.sessions == {1: live(NINE)}
