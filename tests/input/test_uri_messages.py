"""Files at a URI, which Spark's own source reads, give the rows that files in a folder give."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sessionization.hadoop_path import HadoopPath
from sessionization.spark.checkpoint.take_log import take_numbers
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.parse import MAX_VALUE_BYTES
from sessionization.spark.input.source import file_messages
from sessionization.spark.input.taken_lines import read_taken_files

FILES = {
    "lines.json": b'{"a":1}\n \t\r\n\n{"b":2}\r\n{"c":"\xff"}',
    "long.jsonl": b"x" * MAX_VALUE_BYTES + b"\n" + b"y" * (MAX_VALUE_BYTES + 1) + b"\r\n" + b"z" * 200_000,
    "packed.ndjson.gz": gzip.compress(b"in a .gz\n" + b"w" * 100_000),
    "_hidden.json": b"hidden\n",
    "other.txt": b"of another ending\n",
}

pytestmark = pytest.mark.spark


def test_files_at_a_uri_give_the_rows_of_files_in_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    folder, log = tmp_path / "in", tmp_path / "log"
    (folder / "pc_sessions").mkdir(parents=True)
    for name, content in FILES.items():
        (folder / "pc_sessions" / name).write_bytes(content)

    FileTaker(folder, log, tasks=1).take()
    [number] = take_numbers(log)
    takes = pa.RecordBatch.from_pydict({"value": (log / f"{number}.take").read_text().splitlines()})
    taken = [row for batch in read_taken_files(iter([takes])) for row in batch.to_pylist()]
    assert max(row["value_bytes"] for row in taken) == 200_000

    messages = file_messages(spark, HadoopPath(f"file://{folder}"), tmp_path / "unused")
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
