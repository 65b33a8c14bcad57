"""The job with its tables in a catalog, Spark's own with Hive's metastore: no kill loses or doubles a row."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.evening import Evening
from tests.support.job import Job
from tests.support.three_kills import EVENING, OPTIONS, check_every_row, play_with_a_kill_in_each_query

pytestmark = [pytest.mark.job, pytest.mark.long]


class CatalogJob(Job):
    """A job with its tables in a schema of `spark_catalog`, whose folder a local engine has beside its log."""

    def __init__(self, folder: Path, *options: str) -> None:
        super().__init__(folder, *options)
        self.warehouse = self.checkpoints / "spark-warehouse"
        self.conf = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        }

    def table_options(self) -> tuple[str, ...]:
        return ("--catalog", "spark_catalog", "--schema", "default")


def test_a_job_that_is_killed_in_each_query_loses_and_doubles_nothing(tmp_path: Path, spark: SparkSession) -> None:
    with CatalogJob(tmp_path, *OPTIONS) as job:
        play_with_a_kill_in_each_query(job, Evening(tmp_path / "staging", **EVENING))
    check_every_row(job, spark)


def test_the_preflight_finds_the_catalog_fit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = CatalogJob(tmp_path, *OPTIONS).run_script("preflight.py", 0, capfd)
    assert [line for line in lines if line.startswith(("FAILED", "warning"))] == []
    assert any(line.startswith("ok       lease:") for line in lines)
