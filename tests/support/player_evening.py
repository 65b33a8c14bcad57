"""Sessions of one day, as changes of the core that the stream writes in the evening, or an hour later."""

from datetime import UTC, datetime

from sessionization.core.events import Change, ChangeKind, EndReason
from tests.support.histories import HOUR

DAY_MS = int(datetime(2026, 2, 10, tzinfo=UTC).timestamp()) * 1_000
EVENING_MS, LATER_MS = DAY_MS + 20 * HOUR, DAY_MS + 21 * HOUR


def session(
    device: str,
    hours: tuple[float, float],
    account: str | None = None,
    number: int = 1,
    reason: EndReason = EndReason.REPORTED,
    foreground_s: int | None = None,
) -> list[tuple[str, Change]]:
    begin_ms, end_ms = (DAY_MS + int(hour * HOUR) for hour in hours)
    start = Change(number, account, "pc", ChangeKind.STARTED, EVENING_MS, begin_ms, labels=(None,))
    end = start._replace(kind=ChangeKind.ENDED, end_reason=reason, ended_ms=end_ms, foreground_s=foreground_s)
    return [(device, start), (device, end)]


def late_end(device: str, hours: tuple[float, float], account: str | None = None) -> tuple[str, Change]:
    _, (_, end) = session(device, hours, account)
    return device, end._replace(revision=1, processed_ms=LATER_MS)
