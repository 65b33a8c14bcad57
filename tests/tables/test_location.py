"""Where tables are: how SQL and Delta name them, the statements that name them, and the warning on S3."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessionization.hadoop_path import parse_location
from sessionization.spark.tables import s3_commits
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.s3_commits import single_driver_warning
from sessionization.spark.tables.statements import Kind, fill_in, names_of, read_statement
from sessionization.spark.tables.view_sql import session_view_sql


@pytest.mark.parametrize(
    ("location", "for_sql", "for_delta"),
    [
        (TableLocation(None, "spark_catalog", "games"), "`spark_catalog`.`games`.`sessions`", "`games`.`sessions`"),
        (TableLocation(None, "main", "games"), "`main`.`games`.`sessions`", "`main`.`games`.`sessions`"),
        (TableLocation(Path("/t")), "delta.`/t/sessions`", "delta.`/t/sessions`"),
    ],
    ids=["sparks-own-catalog", "another-catalog", "a-folder"],
)
def test_deltas_methods_take_no_catalog_before_sparks_own_schemas(
    location: TableLocation, for_sql: str, for_delta: str
) -> None:
    assert (location.sql_name("sessions"), location.delta_name("sessions")) == (for_sql, for_delta)


FILES = [(kind, name) for kind in ("tables", "views") for name in names_of(kind)]


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_file_is_one_pasteable_statement_that_creates_what_it_is_named_after(kind: Kind, name: str) -> None:
    statement = read_statement(kind, name)
    begin = {"tables": "CREATE TABLE IF NOT EXISTS", "views": "CREATE OR REPLACE VIEW"}[kind]
    assert re.findall(r"^CREATE .*", statement, re.MULTILINE) == [f"{begin} ${{schema}}.{name} ("]
    assert statement.endswith(";\n")
    assert set(re.findall(r"\$\{(\w+)\}", statement)) <= {
        "schema",
        "checkpoint",
        "heartbeat_window_s",
        "labels",
        "title",
        "last_active_at",
        "implied_starts",
    }
    known = names_of("tables") + names_of("views")
    assert set(re.findall(r"\$\{schema\}\.(\w+)", statement)) <= {*known}
    assert max(map(len, statement.splitlines())) <= 120


def test_a_name_is_filled_in_whole_and_a_value_as_text() -> None:
    statement = "CREATE TABLE ${schema}.sessions ('owner' = '${checkpoint}')"
    in_catalog = TableLocation(None, "games", "pr`od").sql_name
    assert (
        fill_in(statement, in_catalog, checkpoint="id") == "CREATE TABLE `games`.`pr``od`.`sessions` ('owner' = 'id')"
    )
    with pytest.raises(KeyError, match="checkpoint"):
        fill_in(statement, in_catalog)


def test_a_session_view_is_temporary_and_reads_the_tables_that_it_is_given() -> None:
    statement = session_view_sql("live_sessions", lambda name: f"of_{name}", heartbeat_ms=30_500)
    assert "CREATE OR REPLACE TEMPORARY VIEW live_sessions (" in statement
    assert "FROM of_sessions s" in statement
    assert "at - INTERVAL 722 SECONDS" in statement


SETTING = "spark.delta.logStore.s3a.impl"


def spark(place: str = "", **conf: str) -> SimpleNamespace:
    """A session with these settings, whose catalog has its tables at `place`."""
    rows = [SimpleNamespace(location=f"{place}/job_lease")]
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get), sql=lambda _query: SimpleNamespace(collect=lambda: rows))


ON_S3 = "s3a://games/tables"
FOR_SEVERAL_DRIVERS = "io.delta.storage.S3DynamoDBLogStore"


@pytest.mark.parametrize(
    ("location", "conf", "is_warned"),
    [
        (ON_S3, {}, True),
        (ON_S3, {SETTING: "io.delta.storage.S3SingleDriverLogStore"}, True),
        (ON_S3, {"spark.delta.logStore.class": "io.delta.storage.HDFSLogStore"}, True),
        (ON_S3, {"spark.delta.logStore.s3.impl": FOR_SEVERAL_DRIVERS}, True),  # of another scheme
        (ON_S3, {SETTING: FOR_SEVERAL_DRIVERS}, False),
        (ON_S3, {SETTING.removeprefix("spark."): FOR_SEVERAL_DRIVERS}, False),
        (ON_S3, {"spark.delta.logStore.class": FOR_SEVERAL_DRIVERS}, False),
        ("hdfs://host/tables", {}, False),
        ("abfss://games@host/tables", {}, False),
        ("gs://games/tables", {}, False),
        ("/mnt/games", {}, False),
    ],
)
def test_where_a_commit_may_replace_another_drivers_one_line_says_so(
    location: str, conf: dict[str, str], *, is_warned: bool
) -> None:
    warning = single_driver_warning(spark(**conf), TableLocation(parse_location(location)))
    assert (warning is not None) is is_warned
    assert warning is None or "LogStore lets a commit of one driver replace another's" in warning
    assert warning is None or "\n" not in warning


def test_the_tables_of_a_catalog_may_be_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    location = TableLocation(None, "spark_catalog", "games")
    assert single_driver_warning(spark("s3a://games/tables"), location) is not None
    assert single_driver_warning(spark("file:/mnt/games"), location) is None
    monkeypatch.setattr(s3_commits, "on_databricks", lambda: True)
    assert single_driver_warning(spark("s3://games/tables"), location) is None
