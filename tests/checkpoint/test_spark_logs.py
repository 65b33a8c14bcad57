"""Reading a query's micro-batches from Spark's own logs."""

import errno
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionization import files
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.spark_logs import (
    StartedBatch,
    newest_committed_batch,
    newest_started_batch,
    oldest_started_batch,
    read_started_batch,
    remove_partial_first_entry,
)
from tests.support.failing import failing_with


def write_log(query: Path, log: str, name: str, text: str = "v1\n{}") -> None:
    (query / log).mkdir(parents=True, exist_ok=True)
    (query / log / name).write_text(text)


def test_the_newest_micro_batch_has_the_greatest_number(tmp_path: Path) -> None:
    assert (newest_started_batch(tmp_path), newest_committed_batch(tmp_path)) == (-1, -1)
    for name in ("9", "10", ".11.crc", "12.tmp"):
        write_log(tmp_path, "offsets", name)
    write_log(tmp_path, "commits", "9")
    assert (newest_started_batch(tmp_path), newest_committed_batch(tmp_path)) == (10, 9)


def test_on_a_volume_the_newest_micro_batch_counts_though_a_listing_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "123":
        write_log(tmp_path, "offsets", name)
        write_log(tmp_path, "commits", name)
    list_all = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda folder: (file for file in list_all(folder) if file.name == "1"))
    monkeypatch.setattr(files, "VOLUMES", tmp_path)
    assert (newest_started_batch(tmp_path), newest_committed_batch(tmp_path)) == (3, 3)


def test_clock_and_partitions_of_a_micro_batch_are_read_from_its_offset_log(tmp_path: Path) -> None:
    conf = '{"batchTimestampMs":1000,"conf":{"spark.sql.shuffle.partitions":"5"}}'
    write_log(tmp_path, "offsets", "3", f"v1\n{conf}\n-")
    assert read_started_batch(tmp_path, 3) == StartedBatch(1_000, 5, (None,))
    write_log(tmp_path, "offsets", "4", 'v1\n{"batchTimestampMs":1000}\n-')
    assert read_started_batch(tmp_path, 4) == StartedBatch(1_000, None, (None,))


@pytest.mark.parametrize("text", ["", "v1\n[]", "v1\n{}", "v1\nnothing", 'v1\n{"batchTimestampMs":1,"conf":[]}'])
def test_a_file_that_is_no_offset_log_is_refused(tmp_path: Path, text: str) -> None:
    write_log(tmp_path, "offsets", "0", text)
    with pytest.raises(CheckpointError, match="0 is not an offset log"):
        read_started_batch(tmp_path, 0)


raise_permission_error = failing_with(errno.EACCES)


@pytest.mark.parametrize(
    ("read", "log"),
    [(newest_started_batch, "offsets"), (oldest_started_batch, "offsets"), (newest_committed_batch, "commits")],
)
def test_a_log_that_this_user_may_not_list_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], int], log: str
) -> None:
    write_log(tmp_path, log, "0")
    monkeypatch.setattr(Path, "iterdir", raise_permission_error)
    message = f"{tmp_path / log} cannot be read (Permission denied): see to its permissions"
    with pytest.raises(CheckpointError, match=re.escape(message)):
        read(tmp_path)


def test_a_partial_entry_that_cannot_be_deleted_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, "offsets", ".0.5a6d.tmp")
    monkeypatch.setattr(Path, "unlink", raise_permission_error)
    with pytest.raises(CheckpointError, match=r"offsets cannot be cleared of .* \(Permission denied\): see to its"):
        remove_partial_first_entry(tmp_path)
