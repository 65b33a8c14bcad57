"""Reads the names of Spark's settings from the class files of its jars, without a JVM."""

import re
import struct
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pyspark

_JARS = ("spark-core_*", "spark-sql-api_*", "spark-catalyst_*", "spark-sql_*", "spark-common-utils_*")
_CLASSES = re.compile(r"/(config/\w+|StaticSQLConf|SQLConf|RocksDBConf|SqlApiConf\w*)\$?\.class$")
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_TEXT, _LONG, _DOUBLE = 1, 5, 6


@cache
def known_spark_keys() -> frozenset[str]:
    """The names of all of Spark's settings. RocksDB's names are completed from their last parts."""
    keys: set[str] = set()
    for name, texts in _classes():
        if "RocksDBConf" in name:
            keys.update(f"{_ROCKSDB}.{text}" for text in texts if re.fullmatch(r"[a-z]\w*(\.\w+)?", text, re.ASCII))
        keys.update(text for text in texts if re.fullmatch(r"spark(\.\w+)+", text, re.ASCII))
    return frozenset(keys)


def _classes() -> Iterator[tuple[str, list[str]]]:
    folder = Path(pyspark.__file__).parent / "jars"
    for pattern in _JARS:
        for jar in folder.glob(f"{pattern}.jar"):
            with zipfile.ZipFile(jar) as archive:
                for name in archive.namelist():
                    if _CLASSES.search(name):
                        yield name, list(_texts(archive.read(name)))


def _texts(class_file: bytes) -> Iterator[str]:
    """The texts in a class file's constant pool (JVM specification, 4.4)."""
    count, offset, number = struct.unpack_from(">H", class_file, 8)[0], 10, 1
    while number < count:
        tag = class_file[offset]
        if tag == _TEXT:
            length = struct.unpack_from(">H", class_file, offset + 1)[0]
            yield class_file[offset + 3 : offset + 3 + length].decode("utf-8", "replace")
            offset += 3 + length
        else:
            offset += 1 + _SIZES[tag]
        number += 2 if tag in {_LONG, _DOUBLE} else 1
