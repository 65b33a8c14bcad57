"""Tables of `tests.bench.age` as the tables of a new job, which a soak then compares with the oracle."""

import multiprocessing
import os
import shutil
from pathlib import Path

import pyarrow.compute as pc

from sessionization.core.session_state import Rules
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.engine.session import spark_session
from sessionization.spark.tables.creation import create_table, take_over
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES
from tests.support.job import Job

_NOT_COPIED = ("session_changes", "stream_progress", "filled-*", "history", "job")
"""A new checkpoint would merge all changes once more, and take the rows of micro-batches for those of its own."""


def only_new_rows(since_ms: float) -> dict[str, pc.Expression]:
    """Conditions by table for the rows that a job has written since an instant, reading from Kafka."""
    has_no_file = pc.is_null(pc.field("file"))
    return {"sessions": pc.field("updated_ms") >= since_ms, "raw_events": has_no_file, "quarantine": has_no_file}


def copy_for(job: Job, aged: Path, settings: SessionizeSettings) -> None:
    """Copy `sessions`, `raw_events` and `quarantine`, and make the job's new checkpoint their owner.

    The data files are hard links. The other tables begin empty; `tests.bench.aged_job` measures a job on old ones.

    The job does not know the sessions that are live there: they only make its MERGE slower.
    """
    shutil.copytree(aged, job.warehouse, copy_function=_copy, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    location = TableLocation.of(settings.tables)
    checkpoint = open_checkpoint(job.checkpoints, PinnedSettings.of(settings, str(location)), Rules())
    # In a process of its own, so that its engine ends before the job starts.
    process = multiprocessing.get_context("spawn").Process(target=_take_over, args=(location, checkpoint.id, aged))
    process.start()
    process.join()
    assert process.exitcode == 0


def _copy(source: str, target: str) -> None:
    """Delta rewrites some files of its log in place, and never a data file."""
    (shutil.copy2 if "_delta_log" in source else os.link)(source, target)


def _take_over(location: TableLocation, owner: str, log_folder: Path) -> None:
    spark = spark_session(log_folder / "take-over.log")
    for table in TABLES:
        create_table(spark, location, table, owner)  # unless it was copied
    take_over(spark, location, owner)
