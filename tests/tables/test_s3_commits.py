"""On S3 the job warns of a second driver, unless Delta's log store allows one."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from sessionization.hadoop_path import parse_location
from sessionization.spark.tables import s3_commits
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.s3_commits import single_driver_warning

SETTING = "spark.delta.logStore.s3a.impl"


def spark(place: str = "", **conf: str) -> SimpleNamespace:
    """A session with these settings, whose catalog has its tables at `place`."""
    rows = [SimpleNamespace(location=f"{place}/job_lease")]
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get), sql=lambda _query: SimpleNamespace(collect=lambda: rows))


def at(text: str) -> TableLocation:
    return TableLocation(parse_location(text))


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {SETTING: "io.delta.storage.S3SingleDriverLogStore"},
        {"spark.delta.logStore.class": "io.delta.storage.HDFSLogStore"},
        {"spark.delta.logStore.s3.impl": "io.delta.storage.S3DynamoDBLogStore"},  # of another scheme
    ],
)
def test_tables_on_s3_have_one_driver(conf: dict[str, str]) -> None:
    warning = single_driver_warning(spark(**conf), at("s3a://games/tables"))
    assert warning is not None
    assert "LogStore lets a commit of one driver replace another's" in warning
    assert "\n" not in warning


@pytest.mark.parametrize("setting", [SETTING, SETTING.removeprefix("spark."), "spark.delta.logStore.class"])
def test_a_log_store_for_several_drivers_needs_no_warning(setting: str) -> None:
    conf = {setting: "io.delta.storage.S3DynamoDBLogStore"}
    assert single_driver_warning(spark(**conf), at("s3a://games/tables")) is None


@pytest.mark.parametrize("location", ["hdfs://host/tables", "abfss://games@host/tables", "gs://games/tables"])
def test_other_storages_refuse_the_second_commit(location: str) -> None:
    assert single_driver_warning(spark(), at(location)) is None
    assert single_driver_warning(spark(), TableLocation(Path("/mnt/games"))) is None


def test_the_tables_of_a_catalog_may_be_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    location = TableLocation(None, "spark_catalog", "games")
    assert single_driver_warning(spark("s3a://games/tables"), location) is not None
    assert single_driver_warning(spark("file:/mnt/games"), location) is None
    monkeypatch.setattr(s3_commits, "on_databricks", lambda: True)
    assert single_driver_warning(spark("s3://games/tables"), location) is None
