"""What a checkpoint that is begun with `--from-sessions` remembers: told from the table `sessions` as ADR 15 has it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from sessionization.core.events import Change, ChangeKind
from sessionization.core.reference import Device, Session, SessionRow
from sessionization.core.session_state import Rules


def taken_over(rows: Mapping[tuple[str, int], SessionRow], newest_ms: int, rules: Rules) -> Iterator[Device]:
    """The devices with a live session, or one that was closed less than the retention before the newest change.

    Pending Ends are in no table. A session that is later than the live one, or one more than the bound, is from after
    something was forgotten, and left out.
    """
    recent: defaultdict[str, list[Session]] = defaultdict(list)
    for (device_id, session_id), row in rows.items():
        deadline_ms = row.updated_ms + rules.late_retention_ms
        if row.started_ms is not None and (row.status == "live" or deadline_ms > newest_ms):
            recent[device_id].append(_session(session_id, row, row.started_ms, deadline_ms))
    for device_id, sessions in recent.items():
        newest_first = sorted(sessions, key=lambda session: (-session.said.processed_ms, session.said.session_id))
        live = max((session for session in sessions if _is_live(session)), key=Session.place, default=None)
        closed = [session for session in newest_first if not _is_live(session)]
        closed = closed[: rules.max_sessions_per_device - (live is not None)]
        kept = [session for session in closed if live is None or session.place() < live.place()]
        yield Device(device_id, live, kept[::-1])


def _session(session_id: int, row: SessionRow, started_ms: int, deadline_ms: int) -> Session:
    kind = ChangeKind.STARTED if row.status == "live" else ChangeKind.ENDED
    said = Change(session_id, row.account_id, row.platform, kind, row.updated_ms, started_ms)
    if kind is ChangeKind.ENDED:
        said = said._replace(
            end_reason=row.end_reason, revision=row.revision, ended_ms=row.ended_ms, foreground_s=row.foreground_s
        )
    return Session(started_ms, row.updated_ms, said, deadline_ms=deadline_ms)


def _is_live(session: Session) -> bool:
    return session.said.kind is ChangeKind.STARTED
