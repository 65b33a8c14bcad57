"""Every kind of dirt occurs and matches its name."""

import re
from collections import Counter
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.malformed import Writer, possible_dirt
from sessionization_simulator.message_form import ACCOUNT, EVENT, FOREGROUND, PLATFORM, TIME, Form
from tests.simulate.simulated import NOW_MS, Written, play, written
from tests.support.event_maps import ARCADE, HANDHELD, LOBBY, OFFSETS, PACKAGE, ROWS, map_of
from tests.support.wire import DEFAULT, REASONS_OF_MAPS, read


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


MAPS = PACKAGE | {"arcade": ARCADE, "handheld": HANDHELD, "offsets": OFFSETS, "rows": ROWS, "lobby": LOBBY}
STREAMS = [(name, stream) for name, text in MAPS.items() for stream in map_of(text).stream_names]


@pytest.mark.parametrize("kind", DirtKind)
@pytest.mark.parametrize(("name", "stream"), STREAMS)
def test_each_way_of_a_malformed_message_is_one_line_and_has_the_reason_of_its_name(
    name: str, stream: str, kind: DirtKind
) -> None:
    writer = Writer(Form.of(map_of(MAPS[name]), stream))
    form, content = writer.form, DEFAULT if name == "default" else yaml.safe_load(MAPS[name])
    is_in_the_text = kind in REASONS_OF_MAPS and not kind.startswith("event_time_")
    if kind not in possible_dirt(form.events) or (kind is DirtKind.UNKNOWN_PLATFORM and PLATFORM not in form.paths):
        return
    platform = next(iter(form.events.streams[stream].platform.values), None) if PLATFORM in form.paths else None
    for turn in range(30):
        is_end = kind is DirtKind.NEGATIVE_FOREGROUND or turn % 2 == 0
        values = {
            **form.session(7),
            EVENT: form.kind(turn, is_end=is_end),
            ACCOUNT: "a",
            **form.device("d"),
            PLATFORM: platform,
        }
        values |= {TIME: form.time("2026-01-01T20:00:00.250", NOW_MS + 250), FOREGROUND: form.foreground(9)}
        line = writer.text(values, kind, turn)
        found = read(stream, line, NOW_MS, content)
        if kind is DirtKind.OTHER_EVENT:
            assert found is None
        elif is_in_the_text:
            assert found == kind
        else:
            assert isinstance(found, tuple)
            assert found[1].at_ms == NOW_MS + 250
            assert found[0] == {"arcade": "group\\:d:d", "tablets": "group\\:d:d"}.get(stream, "d")
        assert line.strip()
        assert not set(b"\r\n") & set(line)


def test_an_evening_of_a_map_is_spread_over_its_streams_and_platforms(tmp_path: Path) -> None:
    for name, text in (("arcade", ARCADE), ("handheld", HANDHELD)):
        (tmp_path / f"{name}.yml").write_text(text)
        play(tmp_path / name, rate=20, duration="60s", events=str(tmp_path / f"{name}.yml"))
    found = [read("arcade", line.line, NOW_MS, yaml.safe_load(ARCADE)) for line in written(tmp_path / "arcade")]
    events = [one for one in found if isinstance(one, tuple)]
    assert len(events) == len(found) > 1_000
    assert {event.platform for _, event in events} == {"pc", "console", "mobile"}
    assert {line.stream for line in written(tmp_path / "handheld")} == {"phones", "tablets"}


def test_dirt_that_a_map_cannot_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--dirt-kinds unknown_platform cannot happen to messages of the event map"):
        play(tmp_path, dirt_kinds=(DirtKind.UNKNOWN_PLATFORM,))


def test_times_in_the_future_and_too_old_are_beyond_the_limits(dirty: DirtyEvenings) -> None:
    assert all(line.at_ms > NOW_MS + 10 * 60_000 for line in dirty.of(DirtKind.EVENT_TIME_IN_FUTURE))
    assert all(line.at_ms < NOW_MS - 7 * 86_400_000 for line in dirty.of(DirtKind.EVENT_TIME_TOO_OLD))


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
