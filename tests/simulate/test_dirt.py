"""Every kind of dirt occurs and matches its name, according to a small strict reader of the contract."""

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.malformed import malform
from tests.simulate.simulated import NOW_MS, STREAMS, Written, at_ms, play, written

VALID = (
    b'{"appSessionId":7,"eventId":"ApplicationSessionEndBi","psnAccountId":"a","hostPcId":"d",'
    b'"timestamp":"2026-01-01T20:00:00.250Z","totalFgTime":9}'
)
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
QUARANTINED_KINDS = (
    DirtKind.OVERSIZED,
    DirtKind.MALFORMED_JSON,
    DirtKind.MISSING_DEVICE_ID,
    DirtKind.MISSING_SESSION_ID,
    DirtKind.MISSING_EVENT_TIME,
    DirtKind.UNKNOWN_EVENT,
    DirtKind.EVENT_TIME_IN_FUTURE,
    DirtKind.EVENT_TIME_TOO_OLD,
    DirtKind.NEGATIVE_FOREGROUND,
)


def read_strictly(line: bytes) -> dict[str, Any] | None:
    """Returns the JSON object of a line, or None; refuses NaN, which Python's own reader accepts."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        value = json.loads(line.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def reason_of(  # noqa: PLR0911 - one return a reason
    line: bytes, device_field: str, ingested_ms: int = NOW_MS
) -> str | None:
    """Returns the contract's first quarantine reason that applies, or None for a valid event."""
    fields = read_strictly(line)
    device = (fields or {}).get(device_field)
    account = (fields or {}).get("psnAccountId")
    if len(line) > 64 * 1024 or any(isinstance(text, str) and len(text) > 256 for text in (device, account)):
        return "oversized"
    if fields is None:
        return "malformed_json"
    if not isinstance(device, str) or not device.strip() or re.search(r"[\ud800-\udfff]", device):
        return "missing_device_id"
    session_id = fields.get("appSessionId")
    if type(session_id) is not int or not -(2**63) <= session_id < 2**63:
        return "missing_session_id"
    timestamp = fields.get("timestamp")
    if not isinstance(timestamp, str) or not TIMESTAMP.fullmatch(timestamp):
        return "missing_event_time"
    try:
        event_ms = at_ms(timestamp)
    except ValueError:
        return "missing_event_time"
    if fields.get("eventId") not in ("ApplicationSessionStart", "ApplicationSessionEndBi"):
        return "unknown_event"
    if event_ms > ingested_ms + 10 * 60_000:
        return "event_time_in_future"
    if event_ms < ingested_ms - 7 * 86_400_000:
        return "event_time_too_old"
    foreground_s = fields.get("totalFgTime")
    if fields["eventId"] == "ApplicationSessionEndBi" and type(foreground_s) is int and foreground_s < 0:
        return "negative_foreground"
    return None


class DirtyEvenings:
    """Plays evenings with short sessions, in which one kind of dirt affects every event that it can affect."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._played: dict[tuple[DirtKind, float], list[Written]] = {}

    def of(self, kind: DirtKind, dirt: float = 1) -> list[Written]:
        if (kind, dirt) not in self._played:
            output = self._folder / f"{kind}-{dirt}"
            summary = play(output, rate=20, duration="60s", session_length="5s", dirt=dirt, dirt_kinds=(kind,))
            assert summary.dirt[kind] > 200
            assert all(count == 0 for other, count in summary.dirt.items() if other is not kind)
            self._played[kind, dirt] = written(output)
        return self._played[kind, dirt]


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> DirtyEvenings:
    return DirtyEvenings(tmp_path_factory.mktemp("dirty"))


def sessions_of(lines: list[Written]) -> dict[int, str]:
    """Returns each session's events in order of arrival, as the letters S and E."""
    sessions: dict[int, str] = {}
    for line in lines:
        session_id = line.fields["appSessionId"]
        sessions[session_id] = sessions.get(session_id, "") + ("E" if line.is_end else "S")
    return sessions


@pytest.mark.parametrize("kind", QUARANTINED_KINDS)
def test_a_broken_message_is_quarantined_for_the_reason_of_its_name(dirty: DirtyEvenings, kind: DirtKind) -> None:
    lines = dirty.of(kind)
    reasons = Counter(reason_of(line.line, STREAMS[line.stream]) for line in lines)
    if kind is DirtKind.NEGATIVE_FOREGROUND:
        assert set(reasons) == {None, kind.value}
        ends = [line for line in lines if line.is_end]
        assert {reason_of(line.line, STREAMS[line.stream]) for line in ends} == {kind.value}
    else:
        assert set(reasons) == {kind.value}


@pytest.mark.parametrize("kind", [kind for kind in DirtKind if kind not in QUARANTINED_KINDS])
def test_other_dirt_is_not_quarantined(dirty: DirtyEvenings, kind: DirtKind) -> None:
    lines = dirty.of(kind)
    assert {reason_of(line.line, STREAMS[line.stream]) for line in lines} == {None}


@pytest.mark.parametrize(
    "kind",
    [kind for kind in QUARANTINED_KINDS if kind not in (DirtKind.EVENT_TIME_IN_FUTURE, DirtKind.EVENT_TIME_TOO_OLD)],
)
@pytest.mark.parametrize("turn", range(30))
def test_each_variant_of_a_malformed_message_has_its_reason_and_is_one_line(kind: DirtKind, turn: int) -> None:
    line = malform(VALID, kind, turn)
    assert reason_of(line, "hostPcId") == kind.value
    assert line.strip()
    assert not set(b"\r\n") & set(line)
    assert len(line) <= 64 * 1024 or kind is DirtKind.OVERSIZED


def test_local_time_is_the_same_instant_with_an_offset(dirty: DirtyEvenings) -> None:
    lines = dirty.of(DirtKind.LOCAL_TIME)
    texts = {line.fields["timestamp"] for line in lines}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d", text) for text in texts)
    assert len({datetime.fromisoformat(text).utcoffset() for text in texts}) == 9
    assert {NOW_MS - 60_000 <= line.at_ms < NOW_MS for line in lines} == {True}


def test_a_repeat_is_the_same_line_again_later(dirty: DirtyEvenings) -> None:
    lines = dirty.of(DirtKind.REPEAT)
    assert len(lines) == 2_400
    assert set(Counter(line.line for line in lines).values()) == {2}
    assert len({(line.file, line.line) for line in lines}) > 1_500


def test_a_late_end_arrives_long_after_it_happened(dirty: DirtyEvenings) -> None:
    lines = dirty.of(DirtKind.LATE_END)
    ends = [line for line in lines if line.is_end]
    assert any(line.at_ms < NOW_MS - 30_000 and line.file == lines[-1].file for line in ends)
    assert set(sessions_of(lines).values()) == {"S", "SE"}


def test_an_end_arrives_before_its_start_and_is_later_in_event_time(dirty: DirtyEvenings) -> None:
    lines = dirty.of(DirtKind.END_BEFORE_START)
    assert set(sessions_of(lines).values()) == {"S", "ES"}
    starts = {line.fields["appSessionId"]: line.at_ms for line in lines if not line.is_end}
    assert all(starts[line.fields["appSessionId"]] < line.at_ms for line in lines if line.is_end)


def test_sessions_of_a_device_overlap(dirty: DirtyEvenings) -> None:
    lines = sorted(dirty.of(DirtKind.OVERLAP, 0.5), key=lambda line: (line.at_ms, not line.is_end))
    live: dict[str, set[int]] = {}
    overlaps = 0
    for line in lines:
        sessions = live.setdefault(line.device, set())
        if line.is_end:
            sessions.discard(line.fields["appSessionId"])
        else:
            overlaps += bool(sessions)
            sessions.add(line.fields["appSessionId"])
    assert overlaps > 200
    assert set(sessions_of(lines).values()) == {"S", "SE"}


@pytest.mark.parametrize(("kind", "expected"), [(DirtKind.LOST_START, {"E"}), (DirtKind.LOST_END, {"S"})])
def test_a_lost_message_does_not_arrive(dirty: DirtyEvenings, kind: DirtKind, expected: set[str]) -> None:
    assert set(sessions_of(dirty.of(kind)).values()) == expected


def test_a_skewed_clock_is_off_within_the_limits(dirty: DirtyEvenings) -> None:
    lines = dirty.of(DirtKind.SKEWED_CLOCK)
    assert min(line.at_ms for line in lines) < NOW_MS - 4 * 60_000
    assert NOW_MS + 3 * 60_000 < max(line.at_ms for line in lines) < NOW_MS + 5 * 60_000


def test_the_share_of_dirt_is_the_requested_one(tmp_path: Path) -> None:
    summary = play(tmp_path, rate=200, duration="60s", session_length="5s", dirt=0.1)
    assert sum(summary.dirt.values()) == pytest.approx(0.1 * 12_000, rel=0.1)
    assert all(summary.dirt.values())
