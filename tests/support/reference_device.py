"""A device as the second implementation holds it, and the order in which its events are taken."""

from dataclasses import dataclass, field, replace

from sessionization.core.events import Change, ChangeKind, End, Event, Start
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, SessionState, Signs


@dataclass(slots=True)
class Session:
    """A session with a Start, or with an implied one. It is live until its `ended` change, and again once resumed.

    `newest_change` is an `ended` change while the session is closed, else a `started` one: what is known of it.
    `said` counts its `ended` and `resumed` changes. `last_active_ms` is None as long as nobody asked for signs of life.
    """

    started_ms: int
    opened_ms: int
    newest_change: Change
    last_beat: int | None = None
    deadline_ms: int = 0
    said: int = 0
    last_active_ms: int | None = None
    heard_ms: int = 0
    resumed_ms: int | None = None
    is_implied: bool = False

    def sort_key(self) -> tuple[int, int]:
        return self.started_ms, self.newest_change.session_id


@dataclass(slots=True)
class PendingEndModel:
    """An End that waits for its Start until its deadline."""

    end: End
    deadline_ms: int


@dataclass(slots=True)
class Device:
    """The remembered sessions and Ends of a device: `closed` in closing order, `pending_ends` in arrival order."""

    device_id: str
    live: Session | None = None
    closed: list[Session] = field(default_factory=list)
    pending_ends: list[PendingEndModel] = field(default_factory=list)

    def sessions(self) -> list[Session]:
        return sorted(self.closed + ([self.live] if self.live else []), key=Session.sort_key)


def canonical_place(event: Event) -> tuple[object, ...]:
    """The sort key of an event among the events of its device in one micro-batch."""
    content = (event.foreground_s if isinstance(event, End) else None, event.account_id)
    content_last, labels_last = (
        [(1,) if value is None else (0, value) for value in values] for values in (content, event.labels)
    )
    kind = 0 if isinstance(event, End) else 1 if isinstance(event, Start) else 2
    first = event.at_ms, kind, event.session_id
    return *first, *content_last, str(event.platform), event.ingested_ms, *labels_last


def as_started(change: Change) -> Change:
    """What is known of a session, as a `started` change."""
    return change._replace(
        kind=ChangeKind.STARTED, end_reason=None, revision=0, ended_ms=None, duration_ms=0, foreground_s=None
    )


def signs_of(live: Session) -> Signs | None:
    if live.last_active_ms is None:
        return None
    return Signs(live.last_active_ms, live.heard_ms, live.is_implied, live.resumed_ms, live.said)


def entries_of(device: Device, rules: Rules) -> dict[int, SessionState]:
    """A device's entries as the core holds them, in the order in which the bound forgets them."""
    entries: dict[int, SessionState] = {}
    if device.live is not None:
        change = device.live.newest_change
        live = Live(device.live.started_ms, device.live.opened_ms, change.account_id, change.platform, change.labels)
        entries[change.session_id] = replace(live, signs=signs_of(device.live))
    for place, session in enumerate(device.closed):
        change, closed_ms = session.newest_change, session.deadline_ms - rules.late_retention_ms
        end = change.ended_ms, change.end_reason, change.revision, change.foreground_s
        who = change.account_id, change.platform
        old = Closed(session.started_ms, *end, *who, closed_ms, place, change.labels)
        opened_ms = None if session.last_active_ms is None else session.opened_ms
        entries[change.session_id] = replace(old, opened_ms=opened_ms, is_implied=session.is_implied)
    for place, waiting in enumerate(device.pending_ends, len(device.closed)):
        end_event, seen_ms = waiting.end, waiting.deadline_ms - rules.late_retention_ms
        content = end_event.at_ms, end_event.foreground_s, end_event.account_id, end_event.platform
        entries[end_event.session_id] = PendingEnd(*content, seen_ms, place, end_event.labels)
    return entries
