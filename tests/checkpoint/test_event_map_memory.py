"""A checkpoint remembers its event map: ids stay, and other differences are printed."""

import json
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from tests.support.checkpoint_folder import FIXED, RULES, reopened
from tests.support.event_maps import HANDHELD, map_of

EVENTS = map_of(HANDHELD)


def changed(was: str, now: str) -> EventMap:
    assert was in HANDHELD
    return map_of(HANDHELD.replace(was, now))


def test_the_first_map_is_stored_and_a_change_is_printed(tmp_path: Path) -> None:
    lines: list[str] = []
    assert reopened(tmp_path).with_events(EVENTS, lines.append).events == EVENTS
    assert read_checkpoint(tmp_path).events == EVENTS
    reopened(tmp_path).with_events(EVENTS, lines.append)
    assert lines == []
    skipping = changed("event: kind", "other_events: skip\nevent: kind")
    reopened(tmp_path).with_events(skipping, lines.append)
    assert lines == ["the event map is another one than at the last start: other_events is skip, was quarantine"]
    assert read_checkpoint(tmp_path).events == skipping


def test_other_paths_of_ids_are_refused_and_change_nothing(tmp_path: Path) -> None:
    checkpoint = reopened(tmp_path).with_events(EVENTS, print)
    before = (tmp_path / "layout.json").read_bytes()
    for other in (package_map(DEFAULT), changed("session_id: sid", "session_id: kind")):
        with pytest.raises(CheckpointError, match=r"was created with another event map: streams\.phones") as error:
            checkpoint.with_events(other, print)
        assert "\n" not in str(error.value)
    assert (tmp_path / "layout.json").read_bytes() == before


def test_a_checkpoint_of_the_first_release_has_the_default_map(tmp_path: Path) -> None:
    reopened(tmp_path)
    file = tmp_path / "layout.json"
    content = json.loads(file.read_text())
    del content["events"]
    file.write_text(json.dumps(content))
    assert read_checkpoint(tmp_path).events == package_map(DEFAULT)
    with pytest.raises(CheckpointError, match=r"streams\.pc_sessions is gone"):
        reopened(tmp_path).with_events(EVENTS, print)


def test_a_start_that_may_still_be_refused_does_not_make_the_checkpoint_warm(tmp_path: Path) -> None:
    warm = open_checkpoint(tmp_path, FIXED, RULES, warm=True).with_events(EVENTS, print)
    assert warm.is_warm
    assert not read_checkpoint(tmp_path).is_warm
    assert read_checkpoint(tmp_path).events == EVENTS
