"""A local engine's own folders: none where it was started."""

from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession


def test_an_engine_makes_its_folders_beside_its_log(spark: SparkSession) -> None:
    spark.sql("CREATE DATABASE of_this_test")
    try:
        (made,) = (row.locationUri for row in spark.catalog.listDatabases() if row.name == "of_this_test")
    finally:
        spark.sql("DROP DATABASE of_this_test")
    folder = Path(urlsplit(made).path).parent
    assert folder.name == "spark-warehouse"
    assert (folder.parent / "engine.log").is_file()
    assert folder.parent != Path.cwd()
