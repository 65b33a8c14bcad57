"""The preflight says where a checkpoint does not fit the options or the tables, as the start would."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.ops.table_checks import check_checkpoint
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE, Checkpoint
from sessionization.spark.output.sinks import FIRST_TABLE_BY_QUERY
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE
from tests.support.preflight_run import checkpoint_of, settings
from tests.support.warehouse import empty_tables

pytestmark = pytest.mark.spark

COMMIT_NAME = "spark.databricks.delta.commitInfo.userMetadata"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "checkpoints").mkdir()
    return tmp_path


def check(spark: SparkSession, settings: SessionizeSettings) -> str:
    return check_checkpoint(spark, settings, TableLocation.of(settings.tables))


def test_a_checkpoint_and_its_tables_fit_the_options(spark: SparkSession, folder: Path) -> None:
    given = settings(folder)
    assert check(spark, given) == "new, as the tables are"
    checkpoint = checkpoint_of(given)
    empty_tables(spark, TableLocation.of(given.tables), owner=checkpoint.id)
    files = sorted(folder.rglob("*"))
    assert check(spark, given) == "it fits the options, and it has not been used yet; it owns 5 of 5 tables"
    assert sorted(folder.rglob("*")) == files, "nothing is written"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"device_groups": 7}, "was created with --device-groups not given, not 7: give the same again"),
        ({"max_event_age": 1_000}, "was created with --max-event-age 7d, not 1s"),
        ({"source": "kafka", "bootstrap_servers": "b:1"}, "was created with --source files, not kafka"),
    ],
)
def test_a_checkpoint_of_other_options_is_refused(
    spark: SparkSession, folder: Path, given: dict[str, Any], message: str
) -> None:
    checkpoint_of(settings(folder))
    with pytest.raises(CheckpointError, match=message):
        check(spark, settings(folder, **given))


def test_a_checkpoint_that_does_not_own_the_tables_is_refused(spark: SparkSession, folder: Path) -> None:
    given = settings(folder)
    empty_tables(spark, TableLocation.of(given.tables), owner="another")
    with pytest.raises(CheckpointError, match=r"it is new, but .* holds session_changes, .*: give the"):
        check(spark, given)
    assert check(spark, settings(folder, from_sessions=True)) == "new; it takes over the tables"
    checkpoint_of(given)
    with pytest.raises(CheckpointError, match=r"is written by another checkpoint .another, not"):
        check(spark, given)


def test_an_interrupted_take_over_goes_on_without_from_sessions(spark: SparkSession, folder: Path) -> None:
    given = settings(folder)
    empty_tables(spark, TableLocation.of(given.tables), owner="another")
    checkpoint = checkpoint_of(settings(folder, from_sessions=True))
    checkpoint.save_as_warm()
    assert checkpoint.is_taking_over
    assert check(spark, given) == "its take-over of the tables goes on"
    appended(spark, TableLocation.of(given.tables), checkpoint, SESSIONIZE, 7)
    with pytest.raises(CheckpointError, match=r"knows the query sessionize up to .*, but the tables hold .* 7"):
        check(spark, given)


def test_a_checkpoint_that_cannot_be_read_is_refused(spark: SparkSession, folder: Path) -> None:
    (folder / "checkpoints" / "layout.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="is not readable"):
        check(spark, settings(folder))
    with pytest.raises(ConfigurationError, match="--from-sessions needs the tables of an earlier job"):
        check(spark, settings(folder, checkpoints=folder / "new", from_sessions=True))


def appended(spark: SparkSession, location: TableLocation, checkpoint: Checkpoint, query: str, batch_id: int) -> None:
    """Add a commit of a micro-batch to the table of a query."""
    spark.conf.set(COMMIT_NAME, f"{checkpoint.writer_id(query)} {batch_id}")
    spark.sql(location.set_properties_sql(FIRST_TABLE_BY_QUERY[query], {"a": "b"}))
    spark.conf.unset(COMMIT_NAME)


def started(folder: Path, query: str, batch_id: int) -> None:
    """Add a started micro-batch to a query of the checkpoint, as far as Spark's log names it."""
    offsets = folder / "checkpoints" / query / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / str(batch_id)).touch()


def test_a_table_that_a_used_checkpoint_misses_is_named(spark: SparkSession, folder: Path) -> None:
    given = settings(folder)
    empty_tables(spark, TableLocation.of(given.tables), owner=checkpoint_of(given).id)
    shutil.rmtree(folder / "warehouse" / QUARANTINE.name)
    assert check(spark, given).endswith("it has not been used yet; it owns 4 of 5 tables")
    started(folder, SESSIONIZE, 0)
    with pytest.raises(CheckpointError, match=r"table quarantine is missing in .*: bring the table back"):
        check(spark, given)


@pytest.mark.parametrize("query", [SESSIONIZE, ARCHIVE])
def test_an_older_copy_of_the_checkpoint_is_refused(spark: SparkSession, folder: Path, query: str) -> None:
    given = settings(folder)
    location, checkpoint = TableLocation.of(given.tables), checkpoint_of(given)
    empty_tables(spark, location, owner=checkpoint.id)
    appended(spark, location, checkpoint, query, 7)
    started(folder, query, 7)
    assert "its newest micro-batch is 7" in check(spark, given)
    (folder / "checkpoints" / query / "offsets" / "7").rename(folder / "checkpoints" / query / "offsets" / "6")
    files = sorted(folder.rglob("*"))
    with pytest.raises(CheckpointError, match=f"knows the query {query} up to micro-batch 6, but the tables hold .* 7"):
        check(spark, given)
    assert sorted(folder.rglob("*")) == files, "nothing is written"
