"""The order of a device's events in one micro-batch, and the times of their changes (docs/session-rules.md)."""

import pytest

from sessionization.core.device_sessions import Tally
from sessionization.core.events import ChangeKind, End, Event, Start, sort_events
from tests.support.histories import (
    CONSOLE,
    EARLIER,
    EIGHT,
    ELEVEN,
    NINE,
    NOON,
    PC,
    REPORTED,
    SUPERSEDED,
    TEN,
    activity,
    apply,
    caused_by,
    closed,
    end,
    ended,
    live,
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
