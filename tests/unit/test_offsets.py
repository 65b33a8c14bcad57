"""What Spark's own logs tell of a query's micro-batches."""

from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.spark.offsets import Begun, begun, newest_begun, newest_committed


def write(query: Path, log: str, name: str, text: str = "v1\n{}") -> None:
    (query / log).mkdir(parents=True, exist_ok=True)
    (query / log / name).write_text(text)


def test_the_newest_is_the_one_with_the_greatest_number(tmp_path: Path) -> None:
    assert (newest_begun(tmp_path), newest_committed(tmp_path)) == (-1, -1)
    for name in ("9", "10", ".11.crc", "12.tmp"):
        write(tmp_path, "offsets", name)
    write(tmp_path, "commits", "9")
    assert (newest_begun(tmp_path), newest_committed(tmp_path)) == (10, 9)


def test_clock_and_partitions_of_a_micro_batch(tmp_path: Path) -> None:
    conf = '{"batchTimestampMs":1000,"conf":{"spark.sql.shuffle.partitions":"5"}}'
    write(tmp_path, "offsets", "3", f"v1\n{conf}\n-")
    assert begun(tmp_path, 3) == Begun(1_000, 5, (None,))
    write(tmp_path, "offsets", "4", 'v1\n{"batchTimestampMs":1000}\n-')
    assert begun(tmp_path, 4) == Begun(1_000, None, (None,))


@pytest.mark.parametrize("text", ["", "v1\n[]", "v1\n{}", "v1\nnothing", 'v1\n{"batchTimestampMs":1,"conf":[]}'])
def test_a_log_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    write(tmp_path, "offsets", "0", text)
    with pytest.raises(CheckpointError, match="0 is not an offset log"):
        begun(tmp_path, 0)
