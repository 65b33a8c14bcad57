"""Lines of files: whole, cut, compressed and damaged; those at a URI are like those in a folder."""

import gzip
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sessionization.hadoop_path import HadoopPath
from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.spark.checkpoint.take_log import take_numbers
from sessionization.spark.input import message_lines
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.message_lines import read_lines
from sessionization.spark.input.source import file_messages
from sessionization.spark.input.taken_lines import read_taken_files

MOST = 10
MB = 1024 * 1024


def messages(file: Path, most: int = MOST) -> list[tuple[bytes, int]]:
    return [message for lines in read_lines(file, most) for message in zip(*lines, strict=True)]


def lines_of(file: Path, content: bytes, most: int = MOST) -> list[tuple[bytes, int]]:
    file.write_bytes(content)
    return messages(file, most)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a\nb\n", [(b"a", 1), (b"b", 1)]),
        (b"a\r\nb", [(b"a", 1), (b"b", 1)]),
        (b"a\r", [(b"a", 1)]),
        (b"\n \t\r\n\na\n", [(b"a", 1)]),
        (b"a\rb\n", [(b"a\rb", 3)]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", [(b"a", 1), (b"\xef\xbb\xbfb", 4)]),
        (b"0123456789\n", [(b"0123456789", 10)]),
        (b"0123456789\r\n", [(b"0123456789", 10)]),
        (b"0123456789a\nb\n", [(b"0123456789", 11), (b"b", 1)]),
        (b"0123456789ab\r\nb\n", [(b"0123456789", 12), (b"b", 1)]),
        (b"0123456789abcdef", [(b"0123456789", 16)]),
        (b"\0" * 30 + b"\nb", [(b"\0" * 10, 30), (b"b", 1)]),
        (b" " * 30 + b"\n" + b" " * 30 + b"a", [(b" " * 10, 31)]),
    ],
)
def test_lines_are_whole_or_cut_with_their_length(
    tmp_path: Path, content: bytes, expected: list[tuple[bytes, int]]
) -> None:
    assert lines_of(tmp_path / "a.json", content) == expected


@given(
    st.lists(st.binary(min_size=0, max_size=30).map(lambda line: line.replace(b"\n", b"x")), max_size=20),
    st.integers(3, 40),
)
def test_lines_do_not_depend_on_the_chunks_of_a_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], chunk_bytes: int
) -> None:
    file = tmp_path_factory.mktemp("chunks") / "a.json"
    whole = lines_of(file, b"\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_lines, "_CHUNK_BYTES", chunk_bytes)
        assert messages(file) == whole


@pytest.mark.parametrize("compress", [False, True])
def test_a_line_without_an_end_needs_no_memory(tmp_path: Path, compress: bool) -> None:  # noqa: FBT001
    file = tmp_path / ("big.json.gz" if compress else "big.json")
    with gzip.open(file, "wb", 1) if compress else file.open("wb") as out:
        for _ in range(50):
            out.write(b"a" * MB)
    tracemalloc.start()
    [(value, length)] = messages(file, 64 * 1024)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (value, length) == (b"a" * 64 * 1024, 50 * MB)
    assert most < 5 * MB


@pytest.mark.parametrize("cut", [1, 9, 20])
def test_the_break_of_a_compressed_file_is_one_empty_message(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "a.json.gz"
    whole = gzip.compress(b"".join(b"%d\n" % number for number in range(5_000)))
    file.write_bytes(whole[:-cut])
    *lines, last = messages(file)
    assert last == (b"", 0)
    assert [value for value, _ in lines] == [b"%d" % number for number in range(len(lines))]
    assert len(lines) > 4_000


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"a\n")[:-8] + b"12345678"], ids=["none", "checksum"])
def test_a_compressed_file_that_is_none_is_one_empty_message(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(content)
    assert messages(file)[-1] == (b"", 0)


def test_a_deleted_file_is_one_empty_message_and_a_lost_mount_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        messages(tmp_path / "no folder" / "a.json")
    with pytest.raises(FileNotFoundError):
        messages(tmp_path / "a.json")
    (tmp_path / ".keep").touch()
    assert messages(tmp_path / "a.json") == [(b"", 0)]


FILES = {
    "lines.json": b'{"a":1}\n \t\r\n\n{"b":2}\r\n{"c":"\xff"}',
    "long.jsonl": b"x" * MAX_VALUE_BYTES + b"\n" + b"y" * (MAX_VALUE_BYTES + 1) + b"\r\n" + b"z" * 200_000,
    "packed.ndjson.gz": gzip.compress(b"in a .gz\n" + b"w" * 100_000),
    "_hidden.json": b"hidden\n",
    "other.txt": b"of another ending\n",
}


@pytest.mark.spark
def test_files_at_a_uri_give_the_rows_of_files_in_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    folder, log = tmp_path / "in", tmp_path / "log"
    (folder / "pc_sessions").mkdir(parents=True)
    for name, content in FILES.items():
        (folder / "pc_sessions" / name).write_bytes(content)

    FileTaker([folder / "pc_sessions"], log, tasks=1).take()
    [number] = take_numbers(log)
    takes = pa.RecordBatch.from_pydict({"value": (log / f"{number}.take").read_text().splitlines()})
    taken = [row for batch in read_taken_files(iter([takes])) for row in batch.to_pylist()]
    assert max(row["value_bytes"] for row in taken) == 200_000

    messages = file_messages(spark, HadoopPath(f"file://{folder}"), ["pc_sessions"], tmp_path / "unused")
    query = (
        messages.writeStream.format("memory")
        .queryName("uri_messages")
        .option("checkpointLocation", str(tmp_path / "c"))
    )
    query.trigger(availableNow=True).start().awaitTermination(60)
    rows = spark.table("uri_messages").collect()
    assert sorted((row.stream, Path(row.file).name, bytes(row.value), row.value_bytes) for row in rows) == sorted(
        (row["stream"], Path(row["file"]).name, row["value"], row["value_bytes"]) for row in taken
    )
