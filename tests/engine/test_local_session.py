"""A local engine creates its folders next to its log, and none where it was started."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_local_engine_creates_its_folders_next_to_its_log(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE of_this_test")
    try:
        (created,) = (row.locationUri for row in spark.catalog.listDatabases() if row.name == "of_this_test")
    finally:
        spark.sql("DROP DATABASE of_this_test")
    folder = Path(urlsplit(created).path).parent
    assert folder.name == "spark-warehouse"
    assert (folder.parent / "engine.log").is_file()
    assert folder.parent != Path.cwd()
