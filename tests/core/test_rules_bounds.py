"""The bound on remembered sessions of one device ("Bounds" in docs/session-rules.md)."""

import pytest

from sessionization.core.session_rules import Tally
from sessionization.core.session_state import Rules
from tests.support.histories import (
    EARLIER,
    EIGHT,
    ELEVEN,
    NINE,
    NOON,
    NOW,
    ONE,
    ORPHANED,
    TEN,
    apply,
    caused_by,
    closed,
    end,
    ended,
    live,
    pending,
    start,
    started,
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
