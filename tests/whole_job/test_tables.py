"""A job that reads Delta tables, which another program fills and compacts and gives a column, also after kills."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.checkpoints import batches_of
from tests.support.harness import Scene, compare
from tests.support.job import ROOT, run_to_end
from tests.support.table_job import TableJob, table_events

pytestmark = pytest.mark.job


def test_a_dirty_evening_in_tables_has_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    scene = Scene(11, 1, tmp_path, groups=8, kind=TableJob, events=table_events(tmp_path))
    job = scene.job
    assert isinstance(job, TableJob)
    with job:
        scene.cut(Boundary.RAW_EVENTS_COMMITTED)
        scene.release(4)
        job.start()
        job.wait_until_done()
        job.come_to_rest()
        do(job, "rescale_state", "--partitions=5")
        do(job, "maintain", "--warehouse", str(job.warehouse))
        run = scene.end()
    assert compare(run, spark) == []
    assert any(batch.is_repartitioning for batch in batches_of(job.checkpoints / "sessionize"))
    rows = sum(len(list(table.rows_between((-1, -1), (table.version, 9)))) for table in job.tables.values())
    assert rows == len(run.actual["raw_events"]) > 0
    assert sum("has other columns" in line for line in job.output_lines()) <= 2


def do(job: TableJob, script: str, *options: str) -> None:
    """Run another job on the stopped one's folders."""
    places = ("--checkpoints", str(job.checkpoints))
    ended = run_to_end(*places, *options, entry=(ROOT / "jobs" / f"{script}.py",), cwd=job.checkpoints.parent)
    assert ended.code == 0, ended.lines
