"""Empty tables: made once, and copied from then on, because Delta takes seconds to create them."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation

_OWNER = "the owner of the copy"


def empty_tables(spark: SparkSession, location: TableLocation, *, owner: str) -> None:
    """What `create_tables` makes in an empty folder, for the checkpoint `owner`."""
    assert location.warehouse is not None
    shutil.copytree(_made_once(spark), location.warehouse, dirs_exist_ok=True)
    for file in location.warehouse.glob("*/_delta_log/*"):
        if file.is_file():
            file.write_text(file.read_text(encoding="utf-8").replace(_OWNER, owner), encoding="utf-8")


_folders: list[TemporaryDirectory[str]] = []


@cache
def _made_once(spark: SparkSession) -> Path:
    _folders.append(TemporaryDirectory(prefix="tables-"))  # removed when Python exits
    folder = Path(_folders[-1].name)
    create_tables(spark, TableLocation(folder), owner=_OWNER, may_create=True)
    for checksum in folder.rglob(".*.crc"):  # the copies have another content
        checksum.unlink()
    return folder
