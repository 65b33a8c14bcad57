"""The pings of the load generator: when they come, crashes, lost networks, and that an evening without them stays."""

from collections import Counter, defaultdict
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from sessionization.core.events import Activity
from sessionization_simulator.dirt import PING_ONLY, DirtKind
from sessionization_simulator.malformed import kinds_of
from tests.simulate.simulated import NOW_MS, Written, contents, play, written
from tests.support.event_maps import PACKAGE, WITH_PINGS, map_of
from tests.support.wire import REASONS, read

PLAYED: dict[str, Any] = {"rate": 20, "duration": "120s", "session_length": "20s"}
WITHOUT_PINGS = "3d631e37b7eff5b93f087975dbd0f2e240263e0078a0e541991c22cf8fad845a"
"""The hash of the files of an evening that was played before there were pings."""


@pytest.fixture(name="events")
def pinging(tmp_path: Path) -> str:
    """The name of a file with the map `default` and pings."""
    (tmp_path / "pings.yml").write_text(WITH_PINGS)
    return str(tmp_path / "pings.yml")


def kind_of(line: Written) -> str:
    return {"ApplicationSessionStart": "start", "ApplicationSessionEndBi": "end", "Ping": "ping"}[
        line.fields["eventId"]
    ]


def sessions_of(lines: list[Written]) -> dict[int, dict[str, list[Written]]]:
    """Each session's lines by their kind, in the order of arrival."""
    sessions: defaultdict[int, defaultdict[str, list[Written]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        sessions[line.fields["appSessionId"]][kind_of(line)].append(line)
    return dict(sessions)


def arrived_ms(line: Written, file_interval_ms: int = 5_000) -> int:
    """The end of the span of time that the line's file holds."""
    number = int(line.file.removesuffix(".json").rpartition("-")[2])
    return NOW_MS - 120_000 + (number + 1) * file_interval_ms


def test_without_pings_an_evening_has_the_bytes_that_it_has_always_had(tmp_path: Path) -> None:
    play(tmp_path, rate=100, duration="60s", session_length="10s", dirt=0.3)
    found = sha256()
    for path, content in sorted(contents(tmp_path).items()):
        found.update(path.encode() + b"\0" + content)
    assert found.hexdigest() == WITHOUT_PINGS


def test_a_session_pings_at_its_interval_until_it_is_over_and_nothing_else_changes(events: str, tmp_path: Path) -> None:
    play(tmp_path / "pings", events=events, ping="3s", **PLAYED)
    play(tmp_path / "none", events=events, **PLAYED)
    lines = written(tmp_path / "pings")
    others = [line for line in lines if kind_of(line) != "ping"]
    assert Counter(line.line for line in others) == Counter(line.line for line in written(tmp_path / "none"))
    pinged = 0
    for session in sessions_of(lines).values():
        [start] = session["start"]
        times = [start.at_ms, *(ping.at_ms for ping in session["ping"])]
        pinged += len(times) - 1
        assert times[1:] == sorted(times[1:])
        assert all(later - earlier == 3_000 for earlier, later in pairwise(times[1:]))
        ends_ms = session["end"][0].at_ms if session["end"] else NOW_MS
        assert times[-1] < ends_ms
        assert ends_ms - times[-1] <= 3_000
        assert len(times) == 1 or 0 < times[1] - times[0] <= 3_000
        assert {line.device for line in session["ping"]} <= {start.device}
        assert all(0 <= arrived_ms(ping) - ping.at_ms <= 5_000 for ping in session["ping"])
    assert pinged > 5_000


def test_after_a_crash_comes_neither_a_ping_nor_an_end(events: str, tmp_path: Path) -> None:
    summary = play(tmp_path / "out", events=events, ping="1s", dirt=0.1, dirt_kinds=(DirtKind.CRASH,), **PLAYED)
    assert summary.dirt[DirtKind.CRASH] > 500
    ended = [session for session in sessions_of(written(tmp_path / "out")).values() if session["end"]]
    play(tmp_path / "clean", events=events, ping="1s", **PLAYED)
    in_clean = sessions_of(written(tmp_path / "clean"))
    for session_id, session in sessions_of(written(tmp_path / "out")).items():
        assert [ping.line for ping in session["ping"]] == [
            ping.line for ping in in_clean[session_id]["ping"][: len(session["ping"])]
        ]
        if len(session["ping"]) < len(in_clean[session_id]["ping"]):
            assert not session["end"]
    assert 100 < len(ended) < sum(1 for session in in_clean.values() if session["end"]) - 400


def test_after_a_lost_network_the_pings_arrive_together_before_the_session_is_over(events: str, tmp_path: Path) -> None:
    summary = play(tmp_path / "out", events=events, ping="1s", dirt=0.02, dirt_kinds=(DirtKind.OFFLINE,), **PLAYED)
    assert summary.dirt[DirtKind.OFFLINE] > 2_000
    lines = written(tmp_path / "out")
    late = [line for line in lines if kind_of(line) == "ping" and arrived_ms(line) - line.at_ms > 5_000]
    assert len(late) > 500
    bursts = Counter((line.fields["appSessionId"], line.file) for line in late)
    assert max(bursts.values()) > 8
    for session in sessions_of(lines).values():
        times = sorted(ping.at_ms for ping in session["ping"])
        assert all(second - first == 1_000 for first, second in pairwise(times)), "none is lost"
        for end in session["end"]:
            assert all(ping.file <= end.file for ping in session["ping"])


@pytest.mark.parametrize("name", [*sorted(PACKAGE.keys() - {"default", "playstation"}), "with_pings"])
def test_pings_of_every_map_are_activities_and_have_each_kind_of_dirt(name: str, tmp_path: Path) -> None:
    text = (PACKAGE | {"with_pings": WITH_PINGS})[name]
    (tmp_path / "map.yml").write_text(text)
    given, content = str(tmp_path / "map.yml"), yaml.safe_load(text)
    summary = play(tmp_path / "out", events=given, ping="1s", dirt=0.5, **PLAYED)
    kinds = kinds_of(map_of(text), has_pings=True)
    assert set(kinds) >= PING_ONLY
    assert all(summary.dirt[kind] > 0 for kind in kinds)
    found = [read(line.stream, line.line, NOW_MS, content, has_activity=True) for line in written(tmp_path / "out")]
    assert sum(isinstance(one, tuple) and isinstance(one[1], Activity) for one in found) > 2_000
    assert {one for one in found if isinstance(one, str)} >= REASONS - {"negative_foreground"}
    assert (None in found) is (content.get("other_events") == "skip")
