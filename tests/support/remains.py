"""Finds a text in the files below a folder, whatever their format."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession


def files_that_contain(folder: Path, spark: SparkSession, *texts: bytes) -> Iterator[Path]:
    """The files that contain one of the texts; they must not change meanwhile."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and any(text in content for content in _contents(file, spark) for text in texts):
            yield file.relative_to(folder)


def _contents(file: Path, spark: SparkSession) -> Iterator[bytes]:
    """The bytes of a file and, if it is compressed, its decoded content."""
    yield file.read_bytes()
    if file.suffix == ".parquet":
        yield repr(pq.ParquetFile(file).read().to_pylist()).encode()
    elif file.suffix == ".zip":  # RocksDB's own logs of a snapshot
        with zipfile.ZipFile(file) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif file.suffix == ".changelog":
        codec = spark._jvm.org.apache.spark.io.LZ4CompressionCodec(spark._jvm.org.apache.spark.SparkConf(False))
        stream = codec.compressedInputStream(spark._jvm.java.io.FileInputStream(str(file)))
        try:
            yield bytes(stream.readAllBytes())
        finally:
            stream.close()


def encodings(number: int) -> tuple[bytes, ...]:
    """The encodings of a number in files: as digits, as eight bytes in both orders, and as Avro writes it."""
    varint, rest = bytearray(), number << 1  # zigzag, of a number that is not negative
    while rest >= 1 << 7:
        varint.append(rest & 0x7F | 0x80)
        rest >>= 7
    return str(number).encode(), number.to_bytes(8, "little"), number.to_bytes(8, "big"), bytes((*varint, rest))
