"""The job with its tables in a catalog, Spark's own with Hive's metastore, or in a folder.

No kill loses or doubles a row.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.evening import Evening
from tests.support.job import ROOT, Job
from tests.support.three_kills import EVENING, OPTIONS, check_every_row, play_with_a_kill_in_each_query

pytestmark = [pytest.mark.job, pytest.mark.long]


class CatalogJob(Job):
    """A job with its tables in a schema of `spark_catalog`, whose folder a local engine has beside its log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, *OPTIONS)
        self.warehouse = self.checkpoints / "spark-warehouse"
        self.conf = {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        }

    def table_options(self) -> tuple[str, ...]:
        return ("--catalog", "spark_catalog", "--schema", "default")


@pytest.fixture
def job(tmp_path: Path, tables_in: str) -> Iterator[Job]:
    job = CatalogJob(tmp_path) if tables_in == "spark_catalog" else Job(tmp_path, *OPTIONS)
    yield job
    job.kill_if_running()


@pytest.fixture
def tables_in() -> str:
    """Where the tables are. A test's parameter of this name replaces it."""
    return "spark_catalog"


@pytest.mark.parametrize("tables_in", ["folder", "spark_catalog"])
def test_a_job_that_is_killed_in_each_query_loses_and_doubles_nothing(
    job: Job, tmp_path: Path, spark: SparkSession
) -> None:
    play_with_a_kill_in_each_query(job, Evening(tmp_path / "staging", **EVENING))
    check_every_row(job, spark)


def test_the_preflight_finds_the_catalog_fit(job: Job, capfd: pytest.CaptureFixture[str]) -> None:
    job.entry = (ROOT / "jobs" / "preflight.py",)
    job.start()
    assert job.wait_for_end(within_s=300) == 0, job.output_lines()[-5:]
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("FAILED", "warning"))] == []
    assert any(line.startswith("ok       lease:") for line in lines)
