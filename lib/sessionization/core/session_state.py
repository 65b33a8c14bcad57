"""The entries of a device's sessions, how long each is remembered, and the timer that they need."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sessionization.core.events import EndReason, Labels, SessionId
from sessionization.core.heartbeat_grid import Grid


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the rules depend on (docs/session-rules.md, "Settings")."""

    heartbeat_ms: int = 30_000
    session_timeout_ms: int = 12 * 60 * 60_000
    late_retention_ms: int = 10 * 60_000
    max_sessions_per_device: int = 64
    inactivity_timeout_ms: int | None = None
    """None without signs of life: a live session then ends by `session_timeout_ms`."""

    @property
    def has_activity(self) -> bool:
        """Whether Activities are events; otherwise they are skipped."""
        return self.inactivity_timeout_ms is not None


@dataclass(frozen=True, slots=True)
class RulesInForce:
    """The rules by the clock of the micro-batch: `previous` up to `previous_until_ms`, `rules` after it.

    A micro-batch that was interrupted is repeated with its old clock. It must be repeated under its old rules too,
    because part of it may already be in the tables.
    """

    rules: Rules
    previous: Rules | None = None
    previous_until_ms: int = 0

    @property
    def has_activity(self) -> bool:
        """Whether Activities are events of some micro-batch, also of one that is repeated under its old rules."""
        return self.rules.has_activity or (self.previous is not None and self.previous.has_activity)

    def at(self, now_ms: int) -> Rules:
        if self.previous is not None and now_ms <= self.previous_until_ms:
            return self.previous
        return self.rules

    def change_to(self, rules: Rules, last_ms: int | None) -> "RulesInForce":
        """Return `rules` for all later micro-batches; the newest started micro-batch retains its own rules.

        `last_ms` is the clock of that micro-batch, None if no micro-batch was started.
        """
        if last_ms is None:
            return RulesInForce(rules)
        if self.rules == rules:
            return self if last_ms <= self.previous_until_ms else RulesInForce(rules)
        return RulesInForce(rules, previous=self.at(last_ms), previous_until_ms=last_ms)


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of life of a session, with `inactivity_timeout`.

    `last_active_ms` is the event time of the newest Start or Activity, `heard_ms` when that was applied (processing
    time). `is_implied`: an Activity opened the session (A4). `resumed_ms` is when it last became live again (A2,
    processing time), and `revision` that of its next `ended` change.
    """

    last_active_ms: int
    heard_ms: int
    is_implied: bool = False
    resumed_ms: int | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Live:
    """A session that was opened and is not over. A device has at most one.

    `signs` are None without `inactivity_timeout`, and where it was opened before that was set.
    """

    started_ms: int
    opened_ms: int
    account_id: str | None
    platform: str
    labels: Labels = ()
    signs: Signs | None = None


@dataclass(frozen=True, slots=True)
class Closed:
    """A session that is over, remembered until `closed_ms + late_retention` to recognise late and repeated events.

    `closing_order` orders a device's closed sessions and pending Ends by when they became so. The bound on a device's
    entries uses it to choose the entry to evict. `opened_ms` and `is_implied` are those of a session that had signs.
    """

    started_ms: int
    ended_ms: int
    reason: EndReason
    revision: int
    foreground_s: int | None
    account_id: str | None
    platform: str
    closed_ms: int
    closing_order: int
    labels: Labels = ()
    opened_ms: int | None = None
    is_implied: bool = False


@dataclass(frozen=True, slots=True)
class PendingEnd:
    """An End whose Start has not come, remembered until `seen_ms + late_retention`."""

    at_ms: int
    foreground_s: int | None
    account_id: str | None
    platform: str
    seen_ms: int
    closing_order: int
    labels: Labels = ()


SessionState = Live | Closed | PendingEnd
Sessions = Mapping[SessionId, SessionState]


class Expiry(NamedTuple):
    """Since when an entry must be in the state for a timer to end it (T0, T1) or to forget it (T3, T4)."""

    opened_by_ms: int
    """A live session that was opened at this instant or earlier times out, unless there is a `heard_by_ms`."""
    remembered_by_ms: int
    """What was closed, or was seen as a pending End, at this instant or earlier is forgotten."""
    heard_by_ms: int | None = None
    """A live session that was last heard at this instant or earlier is inactive."""


def expiry_at(now_ms: int, rules: Rules) -> Expiry:
    """Return what is over at `now_ms`."""
    opened_by_ms, remembered_by_ms = now_ms - rules.session_timeout_ms, now_ms - rules.late_retention_ms
    silence_ms = rules.inactivity_timeout_ms
    return Expiry(opened_by_ms, remembered_by_ms, None if silence_ms is None else now_ms - silence_ms)


def was_silent_until(at_ms: int, signs: Signs, rules: Rules) -> bool:
    """Return whether a session was over before `at_ms` (event time), for want of signs of life."""
    silence_ms = rules.inactivity_timeout_ms
    return silence_ms is not None and at_ms - signs.last_active_ms >= silence_ms


def remembered_since_ms(entry: Closed | PendingEnd) -> int:
    """Return when a session was closed or a pending End was seen (processing time)."""
    return entry.closed_ms if isinstance(entry, Closed) else entry.seen_ms


def deadline_ms(entry: Closed | PendingEnd, rules: Rules) -> int:
    """Return the processing time from which a closed session or a pending End may be forgotten."""
    return remembered_since_ms(entry) + rules.late_retention_ms


def over_ms(live: Live, rules: Rules) -> int:
    """Return the processing time from which a timer ends a live session (T0, T1), if nothing comes of it before."""
    if rules.inactivity_timeout_ms is None or live.signs is None:
        return live.opened_ms + rules.session_timeout_ms
    return live.signs.heard_ms + rules.inactivity_timeout_ms


def next_timer_ms(entries: Iterable[SessionState], now_ms: int, grid: Grid, rules: Rules) -> int | None:
    """Return the first instant after `now_ms` at which the rules have something to do with `entries`; None without any.

    It stays the same for the same entries until that instant has come. A timer at it, or at an earlier instant whose
    firing asks again, is therefore enough.
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


def timer_for_events_ms(
    before: Collection[SessionState], after: Collection[SessionState], now_ms: int, grid: Grid, rules: Rules
) -> int | None:
    """Return the instant for which events have to set a timer; None if a timer is set that early already.

    Args:
        before: the entries that the events found. The timer that these needed is set. Or it is due: then it fires
            later in this micro-batch, and sets the next one.
        after: the entries after the events. Only a first live session needs an earlier timer than the entries before:
            what is closed now is forgotten later than what was closed before.
        now_ms: the micro-batch's clock.
        grid: the grid of the grouping key.
        rules: the rules in force.
    """
    if before and (_has_live(before) or not _has_live(after)):
        return None
    return next_timer_ms(after, now_ms, grid, rules)


def _has_live(entries: Iterable[SessionState]) -> bool:
    return any(isinstance(entry, Live) for entry in entries)
