"""A local engine creates its folders next to its log, and none where it was started."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from sessionization.errors import SetupError
from sessionization_laptop.engine import local_session
from sessionization_laptop.engine.local_session import names_of_settings

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


def test_a_java_that_ends_at_its_start_is_explained_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(**_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkContext, "_ensure_initialized", end)
    with pytest.raises(SetupError, match=r"engine\.out says why at its end; PYSPARK_SUBMIT_ARGS"):
        local_session._start_jvm({}, tmp_path / "engine.out")
