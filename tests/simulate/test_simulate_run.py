"""The files of a simulated evening: their guarantees, and that a repeated run writes the same bytes."""

import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization_simulator.malformed import possible_dirt
from tests.simulate.simulated import NOW_MS, STREAMS, Written, contents, play, written
from tests.support.job import SIMULATE, environment

DIRTY: dict[str, Any] = {"rate": 100, "duration": "60s", "session_length": "10s", "dirt": 0.3}


@pytest.fixture(scope="module")
def evening(tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """Plays a clean evening of 6,000 events."""
    output = tmp_path_factory.mktemp("evening")
    play(output, rate=100, duration="60s", session_length="5s", devices=900)
    return written(output)


def test_the_same_settings_and_instant_give_the_same_bytes_and_others_give_other_sessions(tmp_path: Path) -> None:
    others: dict[str, dict[str, Any]] = {"one": {}, "two": {}, "seed": {"seed": 2}, "instant": {"now_ms": NOW_MS + 1}}
    for name, other in others.items():
        play(tmp_path / name, **DIRTY | other)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    lines = [{line.line for line in written(tmp_path / name)} for name in ("one", "seed", "instant")]
    assert all(len(lines[0] & other) < 10 for other in lines[1:]), "only lines such as null"


def test_dirt_affects_its_share_of_the_messages_and_leaves_the_others_unchanged(tmp_path: Path) -> None:
    play(tmp_path / "clean", **DIRTY | {"dirt": 0})
    summary = play(tmp_path / "dirty", **DIRTY)
    assert {kind for kind, count in summary.dirt.items() if count} == {*possible_dirt(package_map(DEFAULT))}
    assert sum(summary.dirt.values()) == pytest.approx(0.3 * 6_000, rel=0.1)
    clean, dirty = ({line.line for line in written(tmp_path / name)} for name in ("clean", "dirty"))
    assert 0.6 < len(clean & dirty) / len(clean) < 0.85


def test_a_clean_line_has_exactly_the_fields_of_the_contract(evening: list[Written]) -> None:
    for line in evening:
        fields = line.fields
        optional = {"psnAccountId", "totalFgTime"} & fields.keys()
        assert fields.keys() - optional == {"appSessionId", "eventId", STREAMS[line.stream], "timestamp"}
        assert type(fields["appSessionId"]) is int
        assert 0 < fields["appSessionId"] < 2**63
        assert fields["eventId"] in ("ApplicationSessionStart", "ApplicationSessionEndBi")
        assert line.device
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", fields["timestamp"])
        assert fields.get("psnAccountId", "a")
        assert "totalFgTime" not in fields or (line.is_end and type(fields["totalFgTime"]) is int)
        assert fields.get("totalFgTime", 0) >= 0


def test_a_clean_session_starts_once_and_ends_at_most_once_and_later(evening: list[Written]) -> None:
    sessions: dict[int, list[Written]] = defaultdict(list)
    for line in evening:
        sessions[line.fields["appSessionId"]].append(line)
    for lines in sessions.values():
        assert [line.is_end for line in lines] in ([False], [False, True])
        assert len({(line.stream, line.device, line.fields.get("psnAccountId")) for line in lines}) == 1
        if len(lines) == 2:
            start, end = lines
            assert start.at_ms < end.at_ms
            assert end.fields.get("totalFgTime", 0) * 1_000 <= end.at_ms - start.at_ms
    ended = sum(len(lines) == 2 for lines in sessions.values())
    assert ended > 0.8 * len(sessions)


def test_a_clean_device_has_one_session_at_a_time(evening: list[Written]) -> None:
    devices: dict[str, list[Written]] = defaultdict(list)
    for line in evening:
        devices[line.device].append(line)
    assert max(map(len, devices.values())) > 4
    for lines in devices.values():
        assert len({line.stream for line in lines}) == 1
        lines.sort(key=lambda line: line.at_ms)
        assert [line.is_end for line in lines] == [bool(place % 2) for place in range(len(lines))]
        for end, next_start in zip(lines[1::2], lines[2::2], strict=False):
            assert end.at_ms < next_start.at_ms
        for start, end in zip(lines[::2], lines[1::2], strict=False):
            assert start.fields["appSessionId"] == end.fields["appSessionId"]


def test_at_pace_max_the_evening_ends_now_and_each_file_is_one_interval(tmp_path: Path) -> None:
    play(tmp_path, rate=50, duration="60s", session_length="5s", file_interval="10s")
    lines = written(tmp_path)
    assert min(line.at_ms for line in lines) >= NOW_MS - 60_000
    assert NOW_MS - 1_000 < max(line.at_ms for line in lines) < NOW_MS
    files = sorted({line.file for line in lines})
    assert files == [f"20260101T200000.000Z-{number:08d}.json" for number in range(6)]
    for line in lines:
        assert (line.at_ms - (NOW_MS - 60_000)) // 10_000 == files.index(line.file)


def test_the_past_is_written_at_once_and_the_same_players_go_on_in_real_time(tmp_path: Path) -> None:
    # 17 sessions begin each second, so each second has events
    options = {"live": 1_000, "session_length": "60s", "past": "10m", "duration": "601s", "file_interval": "250ms"}
    began_ms = time.time_ns() // 1_000_000
    play(tmp_path, now_ms=began_ms, pace="real-time", **options)
    assert 1 <= time.time() - began_ms / 1_000 < 10
    lines = written(tmp_path)
    past = [line for line in lines if line.at_ms < began_ms]
    assert len({line.file for line in past}) == 10, "a file for each minute"
    live = 0
    lives: dict[int, int] = {}
    for line in sorted(lines, key=lambda line: line.at_ms):
        live += -1 if line.is_end else 1
        lives[(line.at_ms - began_ms) // 1_000] = live
    assert (min(lives), max(lives)) == (-600, 0)
    del lives[-600]  # in the first second they start
    assert all(live == pytest.approx(1_000, rel=0.05) for live in lives.values()), "no jump where the past meets now"


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "pc_sessions").touch()
    with pytest.raises(ConfigurationError, match=rf"^--output {tmp_path} cannot be written \(File exists\): give"):
        play(tmp_path)


def test_a_signal_ends_the_process_with_code_0_after_the_current_file(tmp_path: Path) -> None:
    options = ("--live=200", "--session-length=1s", "--duration=1h", "--file-interval=50ms", f"--output={tmp_path}")
    command = [sys.executable, str(SIMULATE), *options]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.glob("*/*.json")):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert errors.startswith("simulate: done: ")
    assert errors.count("\n") == 1
    assert all(path.endswith(".json") and text.endswith(b"\n") for path, text in contents(tmp_path).items())


@pytest.mark.parametrize(("pace", "duration_s", "wall_s"), [("real-time", 0.5, 0.5), ("4x", 2, 0.5)])
def test_no_event_is_written_before_it_happens(tmp_path: Path, pace: str, duration_s: float, wall_s: float) -> None:
    began_ms = time.time_ns() // 1_000_000
    duration = f"{round(duration_s * 1_000)}ms"
    play(tmp_path, now_ms=began_ms, pace=pace, duration=duration, live=50, session_length="1s", file_interval="50ms")
    took_s = time.time() - began_ms / 1_000
    assert wall_s <= took_s < wall_s + 2
    for line in written(tmp_path):
        # The kernel's clock for modification times advances only every few milliseconds.
        assert line.at_ms <= (tmp_path / line.stream / line.file).stat().st_mtime * 1_000 + 10
