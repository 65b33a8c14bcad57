"""Start(s, t): S1 to S6 of docs/session-rules.md.

The rules are written as (state before, event) -> (changes, state after).
"""

import pytest

from sessionization.core.device_sessions import Tally
from sessionization.core.events import EndReason
from sessionization.core.session_state import Closed, SessionState
from tests.support.histories import (
    CONSOLE,
    EARLIER,
    EIGHT,
    ELEVEN,
    INACTIVE,
    NINE,
    NOON,
    NOW,
    REPORTED,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    apply,
    check_event,
    closed,
    ended,
    live,
    pending,
    start,
    started,
)

COUNTED = Tally(events=1)


@pytest.mark.parametrize("repeated_ms", [EIGHT, NINE, TEN])
@pytest.mark.parametrize(
    "entry", [live(NINE), closed(NINE, TEN, REPORTED), closed(NINE, TEN, SUPERSEDED), closed(NINE, TEN, TIMED_OUT)]
)
def test_s1_a_repeated_start_is_counted_and_changes_nothing_whatever_its_fields(
    entry: SessionState, repeated_ms: int
) -> None:
    repeated = start(1, repeated_ms, "another", CONSOLE)
    outcome = check_event({1: entry}, repeated, emitted=[], state_after={1: entry})
    assert outcome.tally == Tally(events=1, duplicate_start=1)


def test_s2_a_start_with_a_pending_end_starts_and_ends_the_session_at_once() -> None:
    outcome = check_event(
        {1: pending(TEN, foreground_s=60)},
        start(1, NINE),
        emitted=[started(1, NINE), ended(1, NINE, TEN, REPORTED, foreground_s=60)],
        state_after={1: closed(NINE, TEN, REPORTED, foreground_s=60, closed_ms=NOW)},
    )
    assert outcome.tally == COUNTED


@pytest.mark.parametrize(("end_ms", "ended_ms"), [(NINE - 1, NINE), (NINE, NINE), (NINE + 1, NINE + 1)])
def test_s2_an_end_before_its_start_is_clamped_to_the_start(end_ms: int, ended_ms: int) -> None:
    check_event(
        {1: pending(end_ms)},
        start(1, NINE),
        emitted=[started(1, NINE), ended(1, NINE, ended_ms)],
        state_after={1: closed(NINE, ended_ms, closed_ms=NOW)},
    )


def test_s2_an_earlier_live_session_is_superseded_first() -> None:
    check_event(
        {1: live(EIGHT), 2: pending(TEN)},
        start(2, NINE),
        emitted=[ended(1, EIGHT, NINE, SUPERSEDED), started(2, NINE), ended(2, NINE, TEN)],
        state_after={1: closed(EIGHT, NINE, SUPERSEDED, closed_ms=NOW), 2: closed(NINE, TEN, closed_ms=NOW)},
    )


@pytest.mark.parametrize(("end_ms", "ended_ms"), [(TEN - 1, TEN - 1), (TEN, TEN), (TEN + 1, TEN)])
def test_s2_a_later_live_session_stays_and_the_end_is_clamped_to_its_start(end_ms: int, ended_ms: int) -> None:
    check_event(
        {1: pending(end_ms), 2: live(TEN)},
        start(1, NINE),
        emitted=[started(1, NINE), ended(1, NINE, ended_ms)],
        state_after={1: closed(NINE, ended_ms, closed_ms=NOW), 2: live(TEN)},
    )


def test_s3_a_start_older_than_the_live_session_is_superseded_at_once() -> None:
    check_event(
        {2: live(TEN)},
        start(1, NINE),
        emitted=[started(1, NINE), ended(1, NINE, TEN, SUPERSEDED)],
        state_after={1: closed(NINE, TEN, SUPERSEDED, closed_ms=NOW), 2: live(TEN)},
    )


def test_s3_a_start_older_than_a_closed_session_is_superseded_at_once() -> None:
    check_event(
        {2: closed(TEN, ELEVEN), 3: closed(NOON, NOON)},
        start(1, NINE),
        emitted=[started(1, NINE), ended(1, NINE, TEN, SUPERSEDED)],
        state_after={1: closed(NINE, TEN, SUPERSEDED, closed_ms=NOW), 2: closed(TEN, ELEVEN), 3: closed(NOON, NOON)},
    )


@pytest.mark.parametrize("start_ms", [NINE, NINE + 1])
def test_s4_a_start_supersedes_the_live_session_and_becomes_live(start_ms: int) -> None:
    check_event(
        {1: live(NINE, account_id="anna", platform=CONSOLE)},
        start(2, start_ms),
        emitted=[ended(1, NINE, start_ms, SUPERSEDED, account_id="anna", platform=CONSOLE), started(2, start_ms)],
        state_after={
            1: closed(NINE, start_ms, SUPERSEDED, closed_ms=NOW, account_id="anna", platform=CONSOLE),
            2: live(start_ms, opened_ms=NOW),
        },
    )


def test_s5_a_start_on_a_device_without_sessions_becomes_live_and_is_opened_now() -> None:
    outcome = check_event(
        {},
        start(1, NINE, "anna", CONSOLE),
        emitted=[started(1, NINE, "anna", CONSOLE)],
        state_after={1: live(NINE, opened_ms=NOW, account_id="anna", platform=CONSOLE)},
    )
    assert outcome.tally == COUNTED


def test_s5_applies_in_spite_of_earlier_sessions_and_other_pending_ends() -> None:
    other_entries = {1: closed(EIGHT, NINE), 3: pending(EIGHT), 4: pending(NOON)}
    check_event(
        other_entries,
        start(2, NINE),
        emitted=[started(2, NINE)],
        state_after={**other_entries, 2: live(NINE, opened_ms=NOW)},
    )


# The end reasons of the session directly before the new one, each with a foreground time.
REASONS = [(REPORTED, 60), (SUPERSEDED, None), (TIMED_OUT, None), (INACTIVE, None)]


@pytest.mark.parametrize(("reason", "foreground_s"), REASONS)
def test_s6_after_s5_the_earlier_end_is_emitted_again_with_the_same_reason(
    reason: EndReason, foreground_s: int | None
) -> None:
    check_event(
        {1: closed(NINE, ELEVEN, reason, revision=2, foreground_s=foreground_s, account_id="anna", platform=CONSOLE)},
        start(2, TEN),
        emitted=[
            started(2, TEN),
            ended(1, NINE, TEN, reason, 3, foreground_s, account_id="anna", platform=CONSOLE),
        ],
        state_after={
            1: closed(NINE, TEN, reason, revision=3, foreground_s=foreground_s, account_id="anna", platform=CONSOLE),
            2: live(TEN, opened_ms=NOW),
        },
    )


def test_s6_after_s2_the_earlier_end_is_emitted_again_after_the_new_sessions_end() -> None:
    check_event(
        {1: closed(NINE, ELEVEN), 2: pending(NOON)},
        start(2, TEN),
        emitted=[started(2, TEN), ended(2, TEN, NOON), ended(1, NINE, TEN, revision=1)],
        state_after={1: closed(NINE, TEN, revision=1), 2: closed(TEN, NOON, closed_ms=NOW)},
    )


@pytest.mark.parametrize("later", [live(NOON), closed(NOON, NOON)])
def test_s6_after_s3_the_earlier_end_is_emitted_again_and_the_later_session_stays(later: SessionState) -> None:
    check_event(
        {1: closed(NINE, ELEVEN), 3: later},
        start(2, TEN),
        emitted=[started(2, TEN), ended(2, TEN, NOON, SUPERSEDED), ended(1, NINE, TEN, revision=1)],
        state_after={1: closed(NINE, TEN, revision=1), 2: closed(TEN, NOON, SUPERSEDED, closed_ms=NOW), 3: later},
    )


def test_s6_of_two_starts_at_one_time_the_smaller_id_is_the_session_before() -> None:
    check_event(
        {1: closed(TEN, ELEVEN)},
        start(2, TEN),
        emitted=[started(2, TEN), ended(1, TEN, TEN, revision=1)],
        state_after={1: closed(TEN, TEN, revision=1), 2: live(TEN, opened_ms=NOW)},
    )
    check_event(
        {3: closed(TEN, ELEVEN)},
        start(2, TEN),
        emitted=[started(2, TEN), ended(2, TEN, TEN, SUPERSEDED)],
        state_after={2: closed(TEN, TEN, SUPERSEDED, closed_ms=NOW), 3: closed(TEN, ELEVEN)},
    )


@pytest.mark.parametrize("ended_ms", [NINE, TEN - 1, TEN])
def test_s6_a_session_that_ended_by_the_new_start_is_left_alone(ended_ms: int) -> None:
    session = closed(NINE, ended_ms)
    check_event({1: session}, start(2, TEN), [started(2, TEN)], state_after={1: session, 2: live(TEN, opened_ms=NOW)})


def test_s6_a_session_that_ended_a_millisecond_after_the_new_start_is_cut() -> None:
    check_event(
        {1: closed(NINE, TEN + 1)},
        start(2, TEN),
        emitted=[started(2, TEN), ended(1, NINE, TEN, revision=1)],
        state_after={1: closed(NINE, TEN, revision=1), 2: live(TEN, opened_ms=NOW)},
    )


def test_s6_only_the_session_directly_before_is_cut() -> None:
    overlapping = closed(EIGHT, NOON)
    check_event(
        {2: closed(NINE, ELEVEN), 1: overlapping},
        start(3, TEN),
        emitted=[started(3, TEN), ended(2, NINE, TEN, revision=1)],
        state_after={1: overlapping, 2: closed(NINE, TEN, revision=1), 3: live(TEN, opened_ms=NOW)},
    )


def test_s6_a_pending_end_is_not_cut() -> None:
    waiting = {1: pending(NOON)}
    check_event(waiting, start(2, TEN), [started(2, TEN)], state_after={**waiting, 2: live(TEN, opened_ms=NOW)})


def test_s6_a_cut_changes_neither_the_deadline_nor_the_order_of_closing() -> None:
    session: Closed = closed(NINE, ELEVEN, closed_ms=EARLIER, closing_order=3)
    cut_session = apply({1: session, 5: closed(EIGHT, NINE, closing_order=4)}, start(2, TEN)).sessions[1]
    assert cut_session == closed(NINE, TEN, revision=1, closed_ms=EARLIER, closing_order=3)
