"""The layout file of a checkpoint: what it stores, which is refused, and the key of its device groups."""

import errno
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import open_whole
from sessionization.spark.checkpoint.folder import Checkpoint, read_checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.state_layout import StateLayout
from tests.support.checkpoint_folder import FIXED, RULES, SHORTER, begin_micro_batch, reopened
from tests.support.failing import failing_with

DEVICES = ["pc-1", "", "Jos\u00e9", "\U0001f3ae", "a" * 256, *(f"d{number}" for number in range(200))]


def test_each_new_checkpoint_hashes_its_grouped_devices_with_a_key_of_its_own(tmp_path: Path) -> None:
    """Otherwise device ids could be chosen so that all of them share a bucket."""
    grouped = replace(FIXED, device_groups=8)
    first, second = (reopened(tmp_path / name, fixed=grouped).layout for name in ("first", "second"))
    assert len({first.hash_key, second.hash_key, ""}) == 3
    assert reopened(tmp_path / "first", fixed=grouped).layout == read_checkpoint(tmp_path / "first").layout == first
    assert first.hash_key not in repr(first)
    assert reopened(tmp_path / "by device").layout == StateLayout()


def test_the_inactivity_timeout_is_stored_only_where_it_is_set(tmp_path: Path) -> None:
    reopened(tmp_path)
    begin_micro_batch(tmp_path, 0, 1_000)
    assert "inactivity" not in (tmp_path / "layout.json").read_text()
    active = replace(RULES, inactivity_timeout_ms=300_000)
    in_force = reopened(tmp_path, active).in_force
    assert read_checkpoint(tmp_path).in_force == in_force
    assert (in_force.at(1_000), in_force.at(1_001)) == (RULES, active)


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


@pytest.mark.parametrize("read", [reopened, read_checkpoint])
@pytest.mark.parametrize("changed", [{"created_ms": "soon"}, {"pinned": []}, {"rules": {"heartbeat": 1}}, {"id": ...}])
def test_a_layout_file_of_another_form_is_an_error(
    tmp_path: Path, read: Callable[[Path], Checkpoint], changed: dict
) -> None:
    reopened(tmp_path)
    file = tmp_path / "layout.json"
    layout = json.loads(file.read_text()) | changed
    file.write_text(json.dumps({name: value for name, value in layout.items() if value is not ...}))
    with pytest.raises(CheckpointError, match=r"layout\.json is not readable"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["null", "[]", "\xff"])
def test_a_file_that_is_no_layout_is_an_error_and_begins_no_new_checkpoint(tmp_path: Path, text: str) -> None:
    (tmp_path / "layout.json").write_text(text, encoding="latin-1")
    for read in (reopened, read_checkpoint):
        with pytest.raises(CheckpointError, match=r"layout\.json is not readable"):
            read(tmp_path)


def test_a_layout_file_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = reopened(tmp_path)
    for name in ("replace_verified", "write_new"):
        monkeypatch.setattr(f"sessionization.spark.checkpoint.folder.{name}", failing_with(errno.ENOSPC))
    (tmp_path / "layout.json").unlink()
    for write in (
        opened.restore_layout_file,
        opened.write,
        lambda: opened.with_sink("kafka"),
        lambda: reopened(tmp_path),
    ):
        with pytest.raises(ConfigurationError, match=r"cannot be written \(No space left on device\): give a folder"):
            write()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "layout.json"
    file.write_text("before", encoding="utf-8")
    return file


def content(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_a_failed_write_leaves_no_file_and_the_former_one(file: Path) -> None:
    def write_half() -> NoReturn:
        with open_whole(file) as out:
            out.write(b"aft")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert content(file.parent) == {"layout.json": "before"}


def test_a_file_that_is_being_written_is_refused_where_that_is_asked(file: Path) -> None:
    with open_whole(file, "xb") as out:
        out.write(b"after")
        with pytest.raises(FileExistsError), open_whole(file, "xb"):
            pass
    assert content(file.parent) == {"layout.json": "after"}


@pytest.mark.spark
def test_spark_and_python_compute_the_same_grouping_key(spark: SparkSession) -> None:
    counts, keys = (1, 32, 1_000_000), ("", "0123456789abcdef")
    layouts = [StateLayout(), *(StateLayout(count, key) for count in counts for key in keys)]
    rows = spark.createDataFrame([(device_id,) for device_id in DEVICES], "device_id string")
    for device_id, *found in rows.select("device_id", *(layout.grouping_key() for layout in layouts)).collect():
        assert found == [layout.grouping_key_of(device_id) for layout in layouts]


def test_ids_of_one_bucket_are_spread_over_all_buckets_by_another_key() -> None:
    """Ids that fill one bucket are found within seconds for a hash without a key."""
    ids = [f"d{number}" for number in range(40_000)]
    one_bucket = [device_id for device_id in ids if StateLayout(1).bucket_of(device_id, 64) == 7]
    keyed = Counter(StateLayout(1, "secret").bucket_of(device_id, 64) for device_id in one_bucket)
    assert len(one_bucket) > 500
    assert len(keyed) == 64
    assert max(keyed.values()) < 5 * len(one_bucket) / 64
