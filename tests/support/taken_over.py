"""The state with which a checkpoint begins under `--from-sessions`, computed from `sessions` as in ADR 15."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from sessionization.core.events import Change, ChangeKind
from sessionization.core.session_state import Rules
from tests.support.reference import Device, Session, SessionRow


def taken_over(rows: Mapping[tuple[str, int], SessionRow], newest_ms: int, rules: Rules) -> Iterator[Device]:
    """The devices with a live session, or a session closed within the late retention before the newest change.

    No table has pending Ends. A session later than the live one, or beyond the bound per device, came after the state
    lost an entry, and is left out.
    """
    recent: defaultdict[str, list[Session]] = defaultdict(list)
    for (device_id, session_id), row in rows.items():
        deadline_ms = row.updated_ms + rules.late_retention_ms
        if row.started_ms is not None and (row.status == "live" or deadline_ms > newest_ms):
            recent[device_id].append(_session(session_id, row, row.started_ms, deadline_ms))
    for device_id, sessions in recent.items():
        newest_first = sorted(
            sessions, key=lambda session: (-session.newest_change.processed_ms, session.newest_change.session_id)
        )
        live = max((session for session in sessions if _is_live(session)), key=Session.sort_key, default=None)
        closed = [session for session in newest_first if not _is_live(session)]
        closed = closed[: rules.max_sessions_per_device - (live is not None)]
        remembered = [session for session in closed if live is None or session.sort_key() < live.sort_key()]
        yield Device(device_id, live, remembered[::-1])


def _session(session_id: int, row: SessionRow, started_ms: int, deadline_ms: int) -> Session:
    kind = ChangeKind.STARTED if row.status == "live" else ChangeKind.ENDED
    change = Change(session_id, row.account_id, row.platform, kind, row.updated_ms, started_ms)
    if kind is ChangeKind.ENDED:
        change = change._replace(
            end_reason=row.end_reason, revision=row.revision, ended_ms=row.ended_ms, foreground_s=row.foreground_s
        )
    return Session(started_ms, row.updated_ms, change, deadline_ms=deadline_ms)


def _is_live(session: Session) -> bool:
    return session.newest_change.kind is ChangeKind.STARTED
