"""A job that reads Delta tables, which another program fills and compacts and gives a column, also after kills."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.boundaries import Boundary
from tests.support.harness import compare, play
from tests.support.table_job import TableJob, table_events

pytestmark = pytest.mark.job


def test_a_dirty_evening_in_tables_has_no_difference(spark: SparkSession, tmp_path: Path) -> None:
    boundaries = (Boundary.RAW_EVENTS_COMMITTED,)
    run = play(11, 1, tmp_path, boundaries=boundaries, groups=8, kind=TableJob, events=table_events(tmp_path))
    assert compare(run, spark) == []
    assert isinstance(run.job, TableJob)
    rows = sum(len(list(table.rows_between((-1, -1), (table.version, 9)))) for table in run.job.tables.values())
    assert rows == len(run.actual["raw_events"]) > 0
    assert sum("has other columns" in line for line in run.job.output_lines()) <= 2
