"""The order of a device's events in one micro-batch, and Start(s, t): S1 to S6 of docs/session-rules.md.

The rules are written as (state before, event) -> (changes, state after).
"""

import pytest

from sessionization.core.device_sessions import Tally
from sessionization.core.events import ChangeKind, End, EndReason, Event, Start, sort_events
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
    PC,
    REPORTED,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    activity,
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

# Each pair is in canonical order; the named field decides before all later fields.
ORDERED_PAIRS: dict[str, tuple[Event, Event]] = {
    "event time": (start(9, TEN - 1), end(1, TEN)),
    "event time before 1970": (start(1, -2), start(1, -1)),
    "End before Start": (end(2, TEN), start(1, TEN)),
    "Start before Activity": (start(2, TEN), activity(1, TEN)),
    "End before Activity": (end(2, TEN), activity(1, TEN)),
    "session id": (start(2, TEN), start(10, TEN)),
    "session id, negative": (end(-1, TEN), end(1, TEN)),
    "foreground": (End(1, TEN, PC, 9, "b", 5), End(1, TEN, PC, 8, "a", 6)),
    "foreground zero": (End(1, TEN, PC, 9, "b", 0), End(1, TEN, PC, 8, "a", 1)),
    "foreground null last": (End(1, TEN, PC, 9, "b", 2**62), End(1, TEN, PC, 8, "a", None)),
    "account": (Start(1, TEN, PC, 9, "a"), Start(1, TEN, CONSOLE, 8, "b")),
    "account by code points": (Start(1, TEN, PC, 9, "Z"), Start(1, TEN, CONSOLE, 8, "a")),
    "account by code points, accents": (Start(1, TEN, PC, 9, "z"), Start(1, TEN, CONSOLE, 8, "é")),
    "account by code points, beyond 16 bits": (Start(1, TEN, PC, 9, "\uffee"), Start(1, TEN, CONSOLE, 8, "\U0001f3ae")),
    "account null last": (Start(1, TEN, PC, 9, "\U0001f3ae"), Start(1, TEN, CONSOLE, 8, None)),
    "platform": (Start(1, TEN, CONSOLE, 9, "a"), Start(1, TEN, PC, 8, "a")),
    "ingest time": (Start(1, TEN, PC, 8, "a"), Start(1, TEN, PC, 9, "a")),
    "title": (Start(1, TEN, PC, 9, "a", ("Z", "b")), Start(1, TEN, PC, 9, "a", ("a", "a"))),
    "title null last": (Start(1, TEN, PC, 9, "a", ("\U0001f3ae", "b")), Start(1, TEN, PC, 9, "a", (None, "a"))),
    "kept value": (End(1, TEN, PC, 9, "a", 5, ("a", "b")), End(1, TEN, PC, 9, "a", 5, ("a", "c"))),
    "ingest time before title": (Start(1, TEN, PC, 8, "a", ("b",)), Start(1, TEN, PC, 9, "a", ("a",))),
}


@pytest.mark.parametrize("pair", ORDERED_PAIRS.values(), ids=ORDERED_PAIRS)
def test_events_are_applied_in_canonical_order(pair: tuple[Event, Event]) -> None:
    first, second = pair
    assert sort_events([first, second]) == sort_events([second, first]) == [first, second]


def test_an_end_at_the_instant_of_its_start_is_applied_first_and_waits_for_it() -> None:
    outcome = apply({}, start(1, NINE), end(1, NINE, foreground_s=0))
    assert outcome.changes == caused_by(start(1, NINE), [started(1, NINE), ended(1, NINE, NINE, foreground_s=0)])


def test_of_two_ends_in_one_micro_batch_the_earlier_one_is_applied_and_the_other_is_a_repeat() -> None:
    first, second = end(1, TEN, foreground_s=5), end(1, ELEVEN, foreground_s=60)
    outcome = apply({1: live(NINE)}, second, first)
    assert outcome.changes == caused_by(first, [ended(1, NINE, TEN, foreground_s=5)])
    assert outcome.tally == Tally(events=2, duplicate_end=1)


def test_a_change_has_the_times_of_the_event_being_applied_not_of_the_event_of_its_session() -> None:
    waiting = apply({}, End(1, TEN, PC, 77, None, 5), now_ms=EARLIER).sessions
    after_start = apply({**waiting, 7: live(EIGHT)}, Start(1, NINE, PC, 88))
    assert [(change.session_id, change.event_ms, change.ingested_ms) for change in after_start.changes] == [
        (7, NINE, 88),
        (1, NINE, 88),
        (1, NINE, 88),
    ]
    cut = apply({1: closed(EIGHT, NOON)}, Start(2, TEN, PC, 99))
    assert [(change.session_id, change.event_ms, change.ingested_ms) for change in cut.changes] == [
        (2, TEN, 99),
        (1, TEN, 99),
    ]


def test_foreground_is_null_on_every_change_but_a_reported_end() -> None:
    changes = apply({}, start(1, NINE), start(2, TEN), end(2, ELEVEN, foreground_s=5)).changes
    assert [(change.kind, change.end_reason, change.foreground_s) for change in changes] == [
        (ChangeKind.STARTED, None, None),
        (ChangeKind.ENDED, SUPERSEDED, None),
        (ChangeKind.STARTED, None, None),
        (ChangeKind.ENDED, REPORTED, 5),
    ]


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
