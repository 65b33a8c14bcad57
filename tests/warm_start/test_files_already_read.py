"""A warm start refuses input files whose messages the tables have."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.spark.input import source
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS
from sessionization.spark.warm_start import read_position
from tests.support.default_streams import STREAMS
from tests.support.stream_job import message
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark

ODD_NAMES = (
    "plain.json", "events (1).json", "a b.json", "a+b.json", "a%20c.json", "100%.json", "%zz.json",
    "a&b=c,d@e!f'g.json", "k~l$m*n;o.json", "a#b?c.json", "[x]{y}^z`|.json", "ünï-çödé.json", "日本 語.json",
    'quoted".json',
)  # fmt: skip

SIMILAR_NAMES = ("a%20b.json", "a c.json", "events%20(1).json", "a%2Bb.json", "100%25.json", "new.json")

IGNORED_NAMES = (".hidden.json", "_hidden.json", "a.txt", "folder.json/a.json", "date=2026-11-21/a.json")


@pytest.fixture(scope="module")
def read_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TableLocation]:
    """A folder of files that the engine has read into `raw_events`."""
    folder = tmp_path_factory.mktemp("in put (1) ü+%")
    (folder / "pc_sessions").mkdir()
    for name in ODD_NAMES:
        (folder / "pc_sessions" / name).write_text(json.dumps(message(1, "Start")) + "\n")
    for name in IGNORED_NAMES:
        (folder / "pc_sessions" / name).parent.mkdir(exist_ok=True)
        (folder / "pc_sessions" / name).write_text(json.dumps(message(1, "Start")) + "\n")
    location = TableLocation(folder / "warehouse")
    empty_tables(spark, location, owner="ours")
    FileTaker([folder / stream for stream in STREAMS], folder / "takes", 2).take()
    rows = source.file_messages(spark, folder, STREAMS, folder / "takes").drop("value_bytes")
    append = rows.writeStream.foreachBatch(lambda batch, _: location.append(batch, RAW_EVENTS))
    query = append.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return folder, location


def test_the_input_files_are_those_that_the_engine_reads(
    spark: SparkSession, read_files: tuple[Path, TableLocation]
) -> None:
    folder, location = read_files
    assert {file.name for file in source.input_files(folder, STREAMS)} == set(ODD_NAMES)
    assert location.read(spark.read, RAW_EVENTS).select("file").distinct().count() == len(ODD_NAMES)


@contextmanager
def only_file(folder: Path, name: str) -> Iterator[Path]:
    """Leave only one file in the folder for a while: its own file of that name, or an empty one."""
    files, aside = folder / "pc_sessions", folder / "aside"
    files.rename(aside)
    files.mkdir()
    try:
        if (aside / name).exists():
            (files / name).hardlink_to(aside / name)
        else:
            (files / name).touch()
        yield files / name
    finally:
        (files / name).unlink()
        files.rmdir()
        aside.rename(files)


def test_the_files_that_were_read_are_recognised_whatever_their_names(
    spark: SparkSession, read_files: tuple[Path, TableLocation], tmp_path: Path
) -> None:
    """Also in a folder that was copied, or is on a disk of another machine. Files with similar names are new."""
    folder, location = read_files
    copy = tmp_path / "copied" / "pc_sessions"
    shutil.copytree(folder / "pc_sessions", copy)
    for name in SIMILAR_NAMES:
        (copy / name).touch()
    files = list(source.input_files(tmp_path / "copied", STREAMS))
    assert {file.name for file in files} == {*ODD_NAMES, *SIMILAR_NAMES}
    found = read_position._files_already_read(spark, files, location)
    assert sorted(found) == sorted(str(copy / name) for name in ODD_NAMES)


def test_a_file_that_was_read_is_refused_and_a_new_one_is_not(
    spark: SparkSession, read_files: tuple[Path, TableLocation]
) -> None:
    folder, location = read_files
    with only_file(folder, ODD_NAMES[1]) as file, pytest.raises(ConfigurationError) as error:
        read_position.refuse_files_already_read(spark, folder, STREAMS, location)
    assert f"holds 1 files whose messages the tables have ({file}): move them away" in str(error.value)
    with only_file(folder, SIMILAR_NAMES[0]):
        read_position.refuse_files_already_read(spark, folder, STREAMS, location)


def test_a_file_older_than_the_oldest_row_of_raw_events_is_refused(
    spark: SparkSession, read_files: tuple[Path, TableLocation]
) -> None:
    folder, location = read_files
    oldest = location.read(spark.read, RAW_EVENTS).selectExpr("unix_millis(min(ingested_at))").collect()[0][0]
    with only_file(folder, "new.json") as file:
        os.utime(file, ns=(oldest * 1_000_000,) * 2)
        read_position.refuse_files_already_read(spark, folder, STREAMS, location)
        os.utime(file, ns=((oldest - 1) * 1_000_000,) * 2)
        with pytest.raises(
            ConfigurationError,
            match=r"holds 1 files from before .*, and raw_events shows only from then on .*new\.json",
        ):
            read_position.refuse_files_already_read(spark, folder, STREAMS, location)
