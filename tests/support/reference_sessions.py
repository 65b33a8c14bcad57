"""The table `sessions` as the second implementation computes it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sessionization.core.events import Change, ChangeKind, EndReason, Labels, Platform


@dataclass(frozen=True, slots=True)
class SessionRow:
    """One row of the `sessions` table; its end reason is `orphaned` only if no Start is known."""

    account_id: str | None
    platform: Platform
    status: Literal["live", "ended"]
    started_ms: int | None
    ended_ms: int | None
    duration_ms: int | None
    foreground_s: int | None
    end_reason: EndReason | None
    revision: int
    updated_ms: int
    labels: Labels = ()


def session_rows(changes: Iterable[tuple[str, Change]]) -> dict[tuple[str, int], SessionRow]:
    """The `sessions` table after these changes, in any order and with any number of repeats."""
    changes_of: dict[tuple[str, int], list[Change]] = {}
    for device_id, change in changes:
        if change.kind is not ChangeKind.HEARTBEAT:
            changes_of.setdefault((device_id, change.session_id), []).append(change)
    return {session: _row(its_changes) for session, its_changes in changes_of.items()}


def _row(changes: list[Change]) -> SessionRow:
    starts = [c for c in changes if c.kind is ChangeKind.STARTED]
    first_start = sorted(starts, key=lambda c: _nulls_last(c.started_ms, c.account_id, c.platform, *c.labels))[:1]
    ends = sorted((c for c in changes if c.kind is not ChangeKind.STARTED), key=_end_sort_key)
    sources = [*first_start, *ends[-1:]]
    account_id, platform = first_known(c.account_id for c in sources), sources[0].platform
    labels = known_labels(*(c.labels for c in sources))
    started_ms = min((c.started_ms for c in changes if c.started_ms is not None), default=None)
    updated_ms = max(c.processed_ms for c in changes)
    if not ends or ends[-1].kind is ChangeKind.RESUMED:
        return SessionRow(account_id, platform, "live", started_ms, None, None, None, None, 0, updated_ms, labels)
    end = ends[-1]
    ended_ms = max(at_ms for at_ms in (end.ended_ms, started_ms) if at_ms is not None)
    duration_ms = None if started_ms is None else ended_ms - started_ms
    start_came_late = end.end_reason is EndReason.ORPHANED and started_ms is not None
    reason = EndReason.REPORTED if start_came_late else end.end_reason
    end_fields = (end.foreground_s, reason, end.revision, updated_ms, labels)
    return SessionRow(account_id, platform, "ended", started_ms, ended_ms, duration_ms, *end_fields)


def _end_sort_key(c: Change) -> tuple[object, ...]:
    strength = (c.end_reason is EndReason.REPORTED, c.end_reason is EndReason.ORPHANED, c.revision)
    return _nulls_first(*strength, c.ended_ms, c.foreground_s, c.account_id, c.end_reason, c.platform, *c.labels)


def _nulls_first(*values: int | str | None) -> tuple[object, ...]:
    return tuple((0,) if value is None else (1, value) for value in values)


def _nulls_last(*values: int | str | None) -> tuple[object, ...]:
    return tuple((1,) if value is None else (0, value) for value in values)


def known_labels(*sources: Labels) -> Labels:
    """Title and kept values, each by itself from the first source that has it."""
    return tuple(first_known(values) for values in zip(*sources, strict=True))


def first_known(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value is not None), None)
