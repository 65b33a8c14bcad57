"""What is remembered of a device's sessions, until when, and the timer that follows from it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sessionization.core.events import EndReason, Platform
from sessionization.core.heartbeat_grid import Grid


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the rules depend on (docs/session-rules.md, "Settings")."""

    heartbeat_ms: int = 30_000
    session_timeout_ms: int = 12 * 60 * 60_000
    late_retention_ms: int = 10 * 60_000
    max_sessions_per_device: int = 64


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules by the micro-batch's clock: `rules` after `previous_until_ms`, `previous` until then.

    A micro-batch that was cut off is repeated with its old clock. It must then be repeated under its old rules too,
    for part of it may already be in the tables.
    """

    rules: Rules
    previous: Rules | None = None
    previous_until_ms: int = 0

    def at(self, now_ms: int) -> Rules:
        if self.previous is not None and now_ms <= self.previous_until_ms:
            return self.previous
        return self.rules

    def followed_by(self, rules: Rules, last_ms: int | None) -> "RulesInForce":
        """Other rules from now on; the newest micro-batch that was begun, if any (`last_ms` is its clock), keeps its own."""
        if last_ms is None:
            return RulesInForce(rules)
        if self.rules == rules:
            return self
        return RulesInForce(rules, previous=self.at(last_ms), previous_until_ms=last_ms)


@dataclass(frozen=True, slots=True)
class Live:
    """Opened and not over. A device has at most one."""

    started_ms: int
    opened_ms: int
    account_id: str | None
    platform: Platform


@dataclass(frozen=True, slots=True)
class Closed:
    """Over, and remembered until `closed_ms + late_retention`, so that late and repeated events are recognised.

    `place` orders the closed sessions and pending Ends of a device by when they became so; the bound uses it.
    """

    started_ms: int
    ended_ms: int
    reason: EndReason
    revision: int
    foreground_s: int | None
    account_id: str | None
    platform: Platform
    closed_ms: int
    place: int


@dataclass(frozen=True, slots=True)
class PendingEnd:
    """An End whose Start has not come, remembered until `seen_ms + late_retention`."""

    at_ms: int
    foreground_s: int | None
    account_id: str | None
    platform: Platform
    seen_ms: int
    place: int


SessionState = Live | Closed | PendingEnd
Sessions = Mapping[int, SessionState]


def deadline_ms(entry: Closed | PendingEnd, rules: Rules) -> int:
    """When a closed session or a pending End may be forgotten (processing time)."""
    since_ms = entry.closed_ms if isinstance(entry, Closed) else entry.seen_ms
    return since_ms + rules.late_retention_ms


def clamp_to_now(sessions: Sessions, now_ms: int) -> dict[int, SessionState]:
    """Replace every processing time (opened, closed, seen) that is later than `now_ms` by `now_ms`.

    So a session that was opened under a clock that was ahead beats, times out and is forgotten on time.
    """
    return {session_id: _clamp_to_now(entry, now_ms) for session_id, entry in sessions.items()}


def _clamp_to_now(entry: SessionState, now_ms: int) -> SessionState:
    match entry:
        case Live() if entry.opened_ms > now_ms:
            return replace(entry, opened_ms=now_ms)
        case Closed() if entry.closed_ms > now_ms:
            return replace(entry, closed_ms=now_ms)
        case PendingEnd() if entry.seen_ms > now_ms:
            return replace(entry, seen_ms=now_ms)
        case _:
            return entry


def next_timer_ms(entries: Iterable[SessionState], now_ms: int, grid: Grid, rules: Rules) -> int | None:
    """The instant that the one timer over `entries` must be set for, always after `now_ms`; None without entries.

    A timer that is not due is always the one that this gives for the entries it was set for, at any `now_ms`
    before it fires: so a change of entries moves the timer from this of the old to this of the new.
    """
    earliest_ms: int | None = None
    for entry in entries:
        if isinstance(entry, Live):
            return grid.after(now_ms)
        deadline = deadline_ms(entry, rules)
        earliest_ms = deadline if earliest_ms is None else min(earliest_ms, deadline)
    if earliest_ms is None:
        return None
    return grid.at_or_after(max(earliest_ms, now_ms + 1))
