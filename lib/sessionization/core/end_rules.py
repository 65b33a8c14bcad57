"""End(s, t, foreground): the rules E1 to E4 of docs/session-rules.md."""

from dataclasses import replace

from sessionization.core.device_sessions import DeviceSessions, completed, place_of
from sessionization.core.events import End, EndReason
from sessionization.core.session_state import Closed, Live, PendingEnd


def apply_end(device: DeviceSessions, end: End) -> None:
    match device.entries.get(end.session_id):
        case Live() as live:  # E1
            device.close(end.session_id, completed(live, end), end.at_ms, EndReason.REPORTED, end.foreground_s)
        case Closed() as closed if closed.reason.is_inferred:  # E2
            reported = replace(
                completed(closed, end),
                ended_ms=device.clamp(place_of(end.session_id, closed), end.at_ms),
                reason=EndReason.REPORTED,
                revision=closed.revision + 1,
                foreground_s=end.foreground_s,
            )
            device.put_ended(end.session_id, reported)
        case Closed() | PendingEnd():  # E3
            device.tally.duplicate_end += 1
        case None:  # E4, unknown or forgotten: see "A late End" in docs/session-rules.md
            pending_end = PendingEnd(
                at_ms=end.at_ms,
                foreground_s=end.foreground_s,
                account_id=end.account_id,
                platform=end.platform,
                seen_ms=device.now_ms,
                closing_order=device.next_closing_order(),
                labels=end.labels,
            )
            device.put(end.session_id, pending_end)
