"""The events that devices report, and the changes that the rules emit.

Every time is UTC in whole milliseconds (`_ms`). Every duration that a device reports is in seconds (`_s`).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

SessionId = int | str
"""All ids of a job are of one type, which orders them; text by code points."""

Labels = tuple[str | None, ...]
"""The values of `title` and of the kept columns, in the order of the job's label columns; `()` where it has none."""


class Platform(StrEnum):
    """The platforms of the event map `default`. A map may name any others."""

    PC = "pc"
    CONSOLE = "console"


class ChangeKind(StrEnum):
    """The kinds of change to a session."""

    STARTED = "started"
    HEARTBEAT = "heartbeat"
    ENDED = "ended"
    RESUMED = "resumed"
    """The session was closed as inactive, and goes on."""


class EndReason(StrEnum):
    """Why a session is over; `REPORTED` and `ORPHANED` come from an End, the others are inferred."""

    REPORTED = "reported"
    SUPERSEDED = "superseded"
    TIMED_OUT = "timed_out"
    INACTIVE = "inactive"
    ORPHANED = "orphaned"

    @property
    def is_inferred(self) -> bool:
        return self is not EndReason.REPORTED and self is not EndReason.ORPHANED

    @property
    def rank(self) -> int:
        """The order of the ends of a session: `sessions` shows the end with the greatest rank.

        Stored in `sessions`, so it never changes (docs/session-rules.md, "The `sessions` table").
        """
        return 0 if self.is_inferred else 1 if self is EndReason.ORPHANED else 2


@dataclass(frozen=True, slots=True)
class Start:
    """A device reports that a session started at `at_ms` (event time)."""

    session_id: SessionId
    at_ms: int
    platform: str
    ingested_ms: int
    account_id: str | None = None
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class End:
    """A device reports that a session ended at `at_ms` (event time), after `foreground_s` seconds in the foreground."""

    session_id: SessionId
    at_ms: int
    platform: str
    ingested_ms: int
    account_id: str | None = None
    foreground_s: int | None = None
    labels: Labels = ()


@dataclass(frozen=True, slots=True)
class Activity:
    """A device shows at `at_ms` (event time) that a session goes on: a ping, a level, a match."""

    session_id: SessionId
    at_ms: int
    platform: str
    ingested_ms: int
    account_id: str | None = None
    labels: Labels = ()


Event = Start | End | Activity
_ORDER_OF_KINDS = (End, Start, Activity)


class Change(NamedTuple):
    """One row of `session_changes`, without the device. `kind` is its column `change`, and `…_ms` its column `…_at`.

    A new field comes last, with a default.

    It is a named tuple because a frozen dataclass of so many fields takes three times as long to create. That was
    most of the cost of a heartbeat.

    `event_ms` and `ingested_ms` come from the event that was being applied; None where a timer was the cause.
    """

    session_id: SessionId
    account_id: str | None
    platform: str
    kind: ChangeKind
    processed_ms: int
    started_ms: int | None
    end_reason: EndReason | None = None
    revision: int = 0
    ended_ms: int | None = None
    duration_ms: int | None = None
    foreground_s: int | None = None
    beat: int | None = None
    missed_beats: int | None = None
    due_ms: int | None = None
    event_ms: int | None = None
    ingested_ms: int | None = None
    labels: Labels = ()
    """`()` also on heartbeats."""
    last_active_ms: int | None = None
    """Of heartbeats with `inactivity_timeout` alone: the event time of the session's newest sign of life."""


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Sort one device's events of one micro-batch into the order in which they are applied.

    The order is (event time, End before Start before Activity, session id, foreground, account, platform, ingest time,
    labels), nulls last, text by code points. Every field of an event is in the key, so the order of the engine's rows
    does not matter.
    """
    return sorted(events, key=_sort_key)


def _sort_key(event: Event) -> tuple[object, ...]:
    foreground_s = event.foreground_s if isinstance(event, End) else None
    return (
        event.at_ms,
        _ORDER_OF_KINDS.index(type(event)),
        event.session_id,
        foreground_s is None,
        foreground_s or 0,
        event.account_id is None,
        event.account_id or "",
        event.platform,
        event.ingested_ms,
        event.labels and [(label is None, label or "") for label in event.labels],
    )
