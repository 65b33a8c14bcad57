"""The library as a later version would have it: an entry of the state has one more field, which says who wrote it."""

import shutil
from pathlib import Path

from pyspark.sql.types import StringType, StructField, StructType

from sessionization.spark.operator.codec import STATE_SCHEMA
from tests.e2e.job import ROOT

LATER = "a later version"
LATER_SCHEMA = StructType([*STATE_SCHEMA.fields, StructField("written_by", StringType())])
"""`STATE_SCHEMA` of the later version. What an earlier one wrote has null there."""

# What comes at the end of the module that knows the fields: its own functions, and the modules that import from it, take
# these for theirs. What is neither null nor this version's text would be another field, and ends the query.
_ONE_MORE_FIELD = f"""
STATE_SCHEMA.add("written_by", StringType())
_to_known, _from_known = decode_entry, encode_entry


def decode_entry(value):
    *known, written_by = value
    if written_by not in (None, "{LATER}"):
        raise ValueError(f"written by {{written_by!r}}")
    return _to_known(tuple(known))


def encode_entry(entry):
    return (*_from_known(entry), "{LATER}")
"""


def later_library(folder: Path) -> Path:
    """A copy of the library with one more field, to run a job with; not patched in memory, for Spark's workers import it too."""
    library = folder / "later"
    shutil.copytree(ROOT / "lib", library, ignore=shutil.ignore_patterns("__pycache__"))
    with (library / "sessionization" / "spark" / "operator" / "codec.py").open("a", encoding="utf-8") as codec:
        codec.write(_ONE_MORE_FIELD)
    return library
