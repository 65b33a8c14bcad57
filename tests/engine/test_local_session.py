"""A local engine creates its folders next to its log, and none where it was started."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from sessionization.local_engine.local_session import names_of_settings

pytestmark = pytest.mark.spark


def test_every_way_to_give_a_setting_is_known() -> None:
    submit_args = """--conf a.b=1 --conf=c.d=x=y --conf "e.fG=2 3" --driver-memory 4g pyspark-shell"""
    assert names_of_settings(submit_args) == {"a.b", "c.d", "e.fG"}


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
