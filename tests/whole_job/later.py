"""The library as in a later version: a state entry has one more field, which names the version that wrote it."""

import shutil
from pathlib import Path

from pyspark.sql.types import StringType, StructField, StructType

from sessionization.spark.operator.codec import STATE_SCHEMA
from tests.whole_job.job import ROOT

LATER = "a later version"
LATER_SCHEMA = StructType([*STATE_SCHEMA.fields, StructField("written_by", StringType())])
"""`STATE_SCHEMA` of the later version; the new field is null in entries of an earlier version."""

# Code that is appended to the module with the fields. It replaces two functions, for the module and its importers.
# A value that is neither null nor this version's text would belong to another field, and stops the query.
_ONE_MORE_FIELD = f"""
STATE_SCHEMA.add("written_by", StringType())
_decode_known, _encode_known = decode_entry, encode_entry


def decode_entry(value):
    *known, written_by = value
    if written_by not in (None, "{LATER}"):
        raise ValueError(f"written by {{written_by!r}}")
    return _decode_known(tuple(known))


def encode_entry(entry):
    return (*_encode_known(entry), "{LATER}")
"""


def later_library(folder: Path) -> Path:
    """Copy the library and add the field. A patch in memory would not reach Spark's workers, which import it too."""
    library = folder / "later"
    shutil.copytree(ROOT / "lib", library, ignore=shutil.ignore_patterns("__pycache__"))
    with (library / "sessionization" / "spark" / "operator" / "codec.py").open("a", encoding="utf-8") as codec:
        codec.write(_ONE_MORE_FIELD)
    return library
