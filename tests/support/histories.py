"""Short builders of events, entries and changes, so that a test shows its whole history.

Event times are the hours of one morning. Processing time is `NOW` in the micro-batch under test and `EARLIER` in all
micro-batches before it. Instants are exact to the millisecond: `TEN - 1` is the last millisecond before ten.
"""

from collections.abc import Iterable
from dataclasses import replace

from sessionization.core.device_sessions import Outcome
from sessionization.core.events import Activity, Change, ChangeKind, End, EndReason, Event, Platform, Start
from sessionization.core.session_rules import on_events
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, Sessions, SessionState

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

EIGHT, NINE, TEN, ELEVEN, NOON = (hour * HOUR for hour in range(8, 13))
NOW = 13 * HOUR
EARLIER = NOW - 5 * MINUTE

PC, CONSOLE = Platform.PC, Platform.CONSOLE
REPORTED, ORPHANED = EndReason.REPORTED, EndReason.ORPHANED
SUPERSEDED, TIMED_OUT, INACTIVE = EndReason.SUPERSEDED, EndReason.TIMED_OUT, EndReason.INACTIVE

RULES = Rules()
ONE = Rules(max_sessions_per_device=1)


def start(session_id: int, at_ms: int, account_id: str | None = None, platform: Platform = PC) -> Start:
    return Start(session_id, at_ms, platform, at_ms + SECOND, account_id)


def end(
    session_id: int,
    at_ms: int,
    foreground_s: int | None = None,
    account_id: str | None = None,
    platform: Platform = PC,
) -> End:
    return End(session_id, at_ms, platform, at_ms + SECOND, account_id, foreground_s)


def activity(session_id: int, at_ms: int, account_id: str | None = None, platform: Platform = PC) -> Activity:
    return Activity(session_id, at_ms, platform, at_ms + SECOND, account_id)


def live(started_ms: int, opened_ms: int = EARLIER, account_id: str | None = None, platform: Platform = PC) -> Live:
    return Live(started_ms, opened_ms, account_id, platform)


def closed(
    started_ms: int,
    ended_ms: int,
    reason: EndReason = REPORTED,
    revision: int = 0,
    foreground_s: int | None = None,
    closed_ms: int = EARLIER,
    account_id: str | None = None,
    platform: Platform = PC,
    closing_order: int = 0,
) -> Closed:
    return Closed(started_ms, ended_ms, reason, revision, foreground_s, account_id, platform, closed_ms, closing_order)


def pending(
    at_ms: int,
    foreground_s: int | None = None,
    seen_ms: int = EARLIER,
    account_id: str | None = None,
    platform: Platform = PC,
    closing_order: int = 0,
) -> PendingEnd:
    return PendingEnd(at_ms, foreground_s, account_id, platform, seen_ms, closing_order)


def started(session_id: int, at_ms: int, account_id: str | None = None, platform: Platform = PC) -> Change:
    return Change(session_id, account_id, platform, ChangeKind.STARTED, NOW, at_ms, duration_ms=0)


def ended(
    session_id: int,
    started_ms: int | None,
    ended_ms: int,
    reason: EndReason = REPORTED,
    revision: int = 0,
    foreground_s: int | None = None,
    account_id: str | None = None,
    platform: Platform = PC,
) -> Change:
    duration_ms = None if started_ms is None else ended_ms - started_ms
    return Change(
        session_id, account_id, platform, ChangeKind.ENDED, NOW, started_ms, reason, revision,
        ended_ms, duration_ms, foreground_s,
    )  # fmt: skip


def caused_by(event: Event, changes: Iterable[Change]) -> list[Change]:
    """Returns the changes with the event time and ingest time of the event being applied."""
    return [change._replace(event_ms=event.at_ms, ingested_ms=event.ingested_ms) for change in changes]


def without_places(sessions: Sessions) -> dict[int, SessionState]:
    """Returns the entries with `closing_order` 0: the order in which the bound forgets entries has its own tests."""
    return {
        session_id: entry if isinstance(entry, Live) else replace(entry, closing_order=0)
        for session_id, entry in sessions.items()
    }


def apply(state_before: Sessions, *events: Event, rules: Rules = RULES, now_ms: int = NOW) -> Outcome:
    return on_events(state_before, events, now_ms, rules)


def check_event(
    state_before: Sessions, event: Event, emitted: Iterable[Change], state_after: Sessions, rules: Rules = RULES
) -> Outcome:
    """Applies one event and checks the changes that it emits, in order, and the state after it."""
    outcome = apply(state_before, event, rules=rules)
    assert outcome.changes == caused_by(event, emitted)
    assert without_places(outcome.sessions) == dict(state_after)
    return outcome
