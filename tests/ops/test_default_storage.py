"""No job takes a path for a folder of this machine where Spark would take it for one of HDFS."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.errors import ConfigurationError
from sessionization.job.preparation import open_job_checkpoint
from sessionization.ops.erase import erase
from sessionization.ops.maintain import maintain
from sessionization.ops.maintenance_settings import EraseSettings, MaintainSettings, RescaleSettings
from sessionization.ops.rescale import rescale
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.tables.location import TableLocation
from tests.support.settings import settings_of

pytestmark = pytest.mark.spark

DEFAULT = "fs.defaultFS"


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A folder with a checkpoint, while Spark's default storage is HDFS."""
    given = {"input": tmp_path / "input", "warehouse": tmp_path / "tables", "checkpoints": tmp_path / "checkpoints"}
    settings = settings_of(SessionizeSettings, given)
    open_job_checkpoint(settings, TableLocation.of(settings.tables), lambda _line: None)
    hadoop = spark._jsc.hadoopConfiguration()
    before = hadoop.get(DEFAULT)
    hadoop.set(DEFAULT, "hdfs://namenode:8020")
    yield tmp_path
    hadoop.set(DEFAULT, before)


def places(folder: Path) -> dict[str, Any]:
    return {"warehouse": folder / "tables", "checkpoints": folder / "checkpoints"}


@pytest.mark.parametrize(
    "job",
    [
        lambda folder: maintain(settings_of(MaintainSettings, **places(folder)), print, threading.Event()),
        lambda folder: erase(settings_of(EraseSettings, **places(folder), account=("a",)), print),
        lambda folder: backfill(settings_of(BackfillSettings, **places(folder)), print),
        lambda folder: rescale(settings_of(RescaleSettings, checkpoints=folder / "checkpoints", partitions=3), print),
    ],
    ids=["maintain", "erase", "backfill", "rescale"],
)
def test_a_path_is_refused_where_the_default_storage_is_another(folder: Path, job: Callable[[Path], object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        job(folder)
    assert f"has no scheme, and Spark's default storage is hdfs://namenode:8020 ({DEFAULT})" in str(refused.value)
