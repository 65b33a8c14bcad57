"""The state that a warm start gives back is the one that the previous job held, for each device by itself."""

from dataclasses import replace

from hypothesis import given

from sessionization.core.events import Activity, ChangeKind, End, EndReason, Event, Platform, Start
from sessionization.core.heartbeat_grid import Grid, grid_for_key
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, SessionState, Signs
from sessionization.spark.warm_start.remembered_state import MemorySpan, resume
from tests.support.core_driver import Driver
from tests.support.histories import without_places
from tests.support.random_histories import (
    History,
    histories,
    law_settings,
    merge_equal_clocks,
    rows_with_activity,
    rules_that_forget_nothing,
    with_inactivity_timeout,
)

MINUTE = 60_000
NOW = 100 * MINUTE
SPAN = MemorySpan(NOW, Rules())
GRID = Grid(30_000, 0)
LIVE = Live(NOW - 5 * MINUTE, NOW - 5 * MINUTE, None, Platform.PC)


def closed(minutes_ago: int, reason: EndReason = EndReason.REPORTED) -> Closed:
    at_ms = NOW - minutes_ago * MINUTE
    return Closed(at_ms - 1_000, at_ms, reason, 0, None, None, Platform.PC, at_ms, 0)


def start(session_id: int, minutes_ago: int) -> Start:
    return Start(session_id, NOW - minutes_ago * MINUTE, Platform.PC, NOW - minutes_ago * MINUTE)


def end(session_id: int, minutes_ago: int) -> End:
    return End(session_id, NOW - minutes_ago * MINUTE, Platform.PC, NOW - minutes_ago * MINUTE)


def resumed(entries: dict[int, SessionState], *events: Event) -> tuple[dict[int, SessionState], list[Event]]:
    return resume(entries, {event.ingested_ms: [event] for event in events}, GRID, SPAN)


@law_settings(300)
@given(rules_that_forget_nothing, histories(max_batches=30, max_rows=4))
def test_the_entries_and_the_events_without_a_change_give_the_state_back(rules: Rules, history: History) -> None:
    """Live and closed sessions are in the tables, and of an event that is not in them its micro-batch is known."""
    driver, changed = Driver(rules), set()
    history = merge_equal_clocks(history)
    for batch in history:
        for device_id, change in driver.micro_batch(batch.now_ms, batch.rows):
            is_start = change.kind is ChangeKind.STARTED
            if is_start or change.end_reason is EndReason.REPORTED:
                changed.add((device_id, change.session_id, is_start, change.event_ms, change.ingested_ms))
    span = MemorySpan(history[-1].now_ms, rules)
    for device_id in {device_id for batch in history for device_id, _ in batch.rows}:
        expected = driver.sessions.get(device_id, {})
        stored = {id_: entry for id_, entry in expected.items() if not isinstance(entry, PendingEnd)}
        micro_batches: dict[int, list[Event]] = {}
        for batch in history:
            for device, event in batch.rows:
                key = (device, event.session_id, isinstance(event, Start), event.at_ms, event.ingested_ms)
                if device == device_id and key not in changed:
                    micro_batches.setdefault(batch.now_ms, []).append(event)
        sessions, unread = resume(stored, micro_batches, grid_for_key(device_id, rules.heartbeat_ms), span)
        assert without_places(sessions) == without_places(expected)
        assert unread == []


@law_settings(300)
@given(
    with_inactivity_timeout(rules_that_forget_nothing),
    histories(max_batches=30, max_rows=4, any_row=rows_with_activity),
)
def test_archived_activities_give_the_signs_of_life_back(rules: Rules, history: History) -> None:
    """The tables have a live session's start and when it was opened; no Activity opens or resumes one again."""
    driver, changed = Driver(rules), set()
    history = merge_equal_clocks(history)
    for batch in history:
        for device_id, change in driver.micro_batch(batch.now_ms, batch.rows):
            if change.kind is ChangeKind.STARTED or change.end_reason is EndReason.REPORTED:
                is_start = change.kind is ChangeKind.STARTED
                changed.add((device_id, change.session_id, is_start, change.event_ms, change.ingested_ms))
    span = MemorySpan(history[-1].now_ms, rules)
    for device_id, expected in driver.sessions.items():
        stored = {id_: from_tables(entry) for id_, entry in expected.items() if not isinstance(entry, PendingEnd)}
        micro_batches: dict[int, list[Event]] = {}
        for batch in history:
            for device, event in batch.rows:
                key = (device, event.session_id, isinstance(event, Start), event.at_ms, event.ingested_ms)
                if device == device_id and (isinstance(event, Activity) or key not in changed):
                    micro_batches.setdefault(batch.now_ms, []).append(event)
        sessions, unread = resume(stored, micro_batches, grid_for_key(device_id, rules.heartbeat_ms), span)
        assert without_signs(sessions) == without_signs(expected)
        assert not any(isinstance(event, Activity) for event in unread)
        for session_id, entry in expected.items():
            if isinstance(entry, Live) and entry.signs is not None:
                signs = sessions[session_id].signs
                assert signs.last_active_ms >= entry.signs.last_active_ms
                assert signs.revision == entry.signs.revision


def from_tables(entry: SessionState) -> SessionState:
    if isinstance(entry, Live) and entry.signs is not None:
        return replace(entry, signs=Signs(entry.started_ms, entry.opened_ms, revision=entry.signs.revision))
    return entry


def without_signs(sessions: dict[int, SessionState]) -> dict[int, SessionState]:
    return {
        id_: replace(entry, signs=None) if isinstance(entry, Live) else entry
        for id_, entry in without_places(sessions).items()
    }


def test_an_end_without_a_start_waits_on_and_is_never_forgotten_unseen() -> None:
    sessions, unread = resumed({}, end(1, 9), end(2, 10))
    assert {id_: entry.seen_ms for id_, entry in sessions.items()} == {1: NOW - 9 * MINUTE, 2: NOW - 10 * MINUTE}
    assert unread == []


def test_an_event_that_would_change_something_was_not_applied() -> None:
    entries: dict[int, SessionState] = {1: LIVE, 2: closed(6, EndReason.SUPERSEDED)}
    events = start(3, 4), end(2, 3), end(1, 2)
    sessions, unread = resumed(entries, *events)
    assert unread == list(events)
    assert without_places(sessions) == entries


def test_an_event_later_than_the_newest_micro_batch_was_not_applied() -> None:
    assert resumed({}, end(1, -1)) == ({}, [end(1, -1)])


def test_a_repeat_is_known_as_such_though_its_session_was_forgotten_since() -> None:
    assert resumed({1: closed(15)}, start(1, 10), end(1, 9)) == ({}, [])
    sessions, unread = resumed({1: closed(15)}, end(1, 4))
    assert isinstance(sessions[1], PendingEnd), "its session was forgotten five minutes ago"
    assert unread == []


def test_the_state_holds_no_more_than_the_bound_and_no_session_after_the_live_one() -> None:
    entries: dict[int, SessionState] = {id_: closed(9) for id_ in range(70)}
    sessions, _ = resumed(entries | {99: LIVE, 98: replace(closed(1), started_ms=NOW)})
    assert len(sessions) == 63
    assert 98 not in sessions
    assert 99 in sessions
