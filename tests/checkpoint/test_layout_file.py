"""The layout file of a checkpoint: what it stores, and which one is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.state_layout import StateLayout
from tests.support.checkpoint_folder import FIXED, RULES, SHORTER, begin_micro_batch, reopened


def test_each_new_checkpoint_hashes_its_grouped_devices_with_a_key_of_its_own(tmp_path: Path) -> None:
    """Otherwise device ids could be chosen so that all of them share a bucket."""
    grouped = replace(FIXED, device_groups=8)
    first, second = (reopened(tmp_path / name, fixed=grouped).layout for name in ("first", "second"))
    assert len({first.hash_key, second.hash_key, ""}) == 3
    assert reopened(tmp_path / "first", fixed=grouped).layout == read_checkpoint(tmp_path / "first").layout == first
    assert first.hash_key not in repr(first)
    assert reopened(tmp_path / "by device").layout == StateLayout()


def test_of_two_starts_on_a_new_folder_the_owner_of_the_tables_gets_it(tmp_path: Path) -> None:
    first = reopened(tmp_path)
    (tmp_path / "layout.json").unlink()  # the second start read the folder before the first one wrote
    second = reopened(tmp_path, SHORTER)
    first.restore_layout_file()
    again = reopened(tmp_path)
    assert (again.id, again.created_ms, again.pinned) == (first.id, first.created_ms, FIXED)
    assert again.id != second.id


def test_the_layout_file_of_this_checkpoint_is_not_written_again(tmp_path: Path) -> None:
    first = reopened(tmp_path)
    before = (tmp_path / "layout.json").stat()
    first.restore_layout_file()
    assert (tmp_path / "layout.json").stat() == before


def test_a_used_folder_with_the_layout_file_of_another_checkpoint_is_refused(tmp_path: Path) -> None:
    reopened(tmp_path)
    begin_micro_batch(tmp_path, 0, 1_000)
    used = reopened(tmp_path)
    file = tmp_path / "layout.json"
    file.write_text(file.read_text().replace(used.id, "theirs"))
    with pytest.raises(CheckpointError, match=f"was {used.id} and is now theirs"):
        used.restore_layout_file()


@pytest.mark.parametrize("version", [0, 2, None, ...])
def test_a_checkpoint_of_another_layout_is_refused_before_any_file_changes(tmp_path: Path, version: object) -> None:
    reopened(tmp_path)
    file = tmp_path / "layout.json"
    content = json.loads(file.read_text()) | {"layout_version": version}
    if version is ...:
        del content["layout_version"]
    file.write_text(json.dumps(content | {"pinned": {"an option of another release": 1}}))
    before = file.read_bytes()
    for read in (lambda: reopened(tmp_path, SHORTER), lambda: read_checkpoint(tmp_path)):
        with pytest.raises(
            CheckpointError,
            match=r"has (no layout|layout \S+), not 1: deploy the release that wrote it, or begin .* --from-sessions",
        ):
            read()
    assert file.read_bytes() == before


def test_every_pinned_setting_is_stored(tmp_path: Path) -> None:
    other = replace(FIXED, mode="real-time", starting_offsets="latest", output_topic="changes")
    open_checkpoint(tmp_path, other, RULES)
    assert read_checkpoint(tmp_path).pinned == other
