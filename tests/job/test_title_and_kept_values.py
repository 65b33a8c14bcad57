"""A job whose event map gains a title and kept columns, loses one, and whose checkpoint is then begun anew."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.ops.state_reader import StateReader
from sessionization.spark.tables.schemas import BACKFILL, SESSIONS
from sessionization.spark.tables.views import create_views
from tests.support.settings import settings_of
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for
from tests.support.wire import DEFAULT

pytestmark = pytest.mark.spark

FIRST = "title: appTitleId\nkeep: {country: geo.country}\n"
SECOND = "title: appTitleId\nkeep: {order: shop.order}\n"


def says(session_id: int, event: str, device: str, title: str | None, **more: object) -> dict[str, Any]:
    return message(session_id, event, device) | {"appTitleId": title} | more


def run_until_over(job: Job, *sessions: tuple[str, int]) -> None:
    """Run until `sessions` shows these sessions as ended, and every message is archived."""
    with job.running() as queries:

        def over() -> set[tuple[str, int]]:
            return {(row["device_id"], row["session_id"]) for row in job.rows(SESSIONS, status="ended")}

        wait_for(lambda: {*sessions} <= over() and job.archived() == job.sent, "the ends")
        job.stop(queries)


def shown(job: Job, *columns: str) -> dict[tuple[str, int], tuple[Any, ...]]:
    return {(row["device_id"], row["session_id"]): tuple(row[name] for name in columns) for row in job.rows(SESSIONS)}


def write_map(tmp_path: Path, name: str, lines: str) -> str:
    (tmp_path / name).write_text(f"{yaml.safe_dump({'version': 1} | DEFAULT)}{lines}")
    return str(tmp_path / name)


@pytest.mark.parametrize("groups", [None, pytest.param(3, marks=pytest.mark.long)])
def test_columns_come_and_stay_under_one_checkpoint_and_a_new_one(
    spark: SparkSession, tmp_path: Path, groups: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=groups, late_retention="1h")
    job.send(says(1, "Start", "before", None), says(1, "Start", "old", None), says(1, "EndBi", "old", None))
    job.send(says(2, "EndBi", "waits", None))
    job.sent = 4
    run_until_over(job, ("old", 1))
    assert "title" not in job.rows(SESSIONS)[0]

    job.change(events=write_map(tmp_path, "first.yml", FIRST))
    job.send(says(1, "EndBi", "before", "chess", geo={"country": "DE"}), says(2, "Start", "waits", "go"))
    job.send(says(3, "Start", "both", "chess"), says(3, "EndBi", "both", "go", geo={"country": "AT"}))
    job.send(says(4, "Start", "plays", "chess", geo={"country": "FR"}))
    job.sent += 5
    run_until_over(job, ("before", 1), ("waits", 2), ("both", 3))
    assert shown(job, "title", "country") == {
        ("old", 1): (None, None),
        ("before", 1): ("chess", "DE"),
        ("waits", 2): ("go", None),
        ("both", 3): ("chess", "AT"),
        ("plays", 4): ("chess", "FR"),
    }

    job.change(events=write_map(tmp_path, "second.yml", SECOND))
    job.send(says(4, "EndBi", "plays", "go", geo={"country": "ES"}, shop={"order": True}))
    job.send(says(5, "Start", "new", "go", geo={"country": "IT"}, shop={"order": -7}))
    job.send(says(6, "Start", "goes on", "go", shop={"order": 8}), says(6, "Start", "late", "chess"))
    job.sent += 4
    run_until_over(job, ("plays", 4))
    with job.running("sessionize") as queries:
        wait_for(lambda: job.count(change="heartbeat", device_id="new"), "a heartbeat")
        job.stop(queries)
    labels = ("title", "country", "order")
    assert job.location.labels(spark) == labels
    assert shown(job, *labels)["plays", 4] == ("chess", "FR", "true")
    assert shown(job, *labels)["new", 5] == ("go", None, "-7"), "what the map does not keep any more is null"
    said = {tuple(row[name] for name in labels) for row in job.changes(change="heartbeat")}
    assert said == {(None, None, None)}
    in_state = StateReader(spark, job.settings.state.checkpoints).sessions().where("device_id = 'new'").collect()
    assert [row.labels.replace(" ", "") for row in in_state] == ['["go",null,"-7"]']

    for file in job.input.glob("*/*.json"):
        file.unlink()
    job.change(checkpoints=tmp_path / "other", device_groups=None if groups else 3, from_sessions=True)
    job.send(says(5, "EndBi", "new", "chess", geo={"country": "XX"}), says(6, "EndBi", "late", None))
    job.sent += 2
    run_until_over(job, ("new", 5), ("late", 6))
    assert job.location.labels(spark) == labels, "the new checkpoint has the columns of the tables"
    assert shown(job, *labels)["new", 5] == ("go", None, "-7")
    assert shown(job, *labels)["late", 6] == ("chess", None, None)
    last = max(job.changes(device_id="new", change="ended"), key=lambda row: row["processed_ms"])
    assert tuple(last[name] for name in labels) == ("go", None, "-7")
    views_show_them(spark, job)
    backfill_knows_them(spark, job, labels)


def views_show_them(spark: SparkSession, job: Job) -> None:
    create_views(spark, job.location, ("live_sessions", "device_timeline", "concurrent_sessions"))
    live = spark.sql("SELECT device_id, title, country, `order` FROM live_sessions").collect()
    assert [tuple(row) for row in live] == [("goes on", "go", None, "8")]
    timeline = spark.table("device_timeline").where("device_id = 'new' AND change != 'heartbeat'").orderBy("position")
    assert [(row.change, row.order) for row in timeline.collect()] == [("started", "-7"), ("ended", "-7")]
    titles = spark.sql("SELECT DISTINCT title FROM concurrent_sessions").collect()
    assert {row.title for row in titles} == {None, "chess", "go"}


def backfill_knows_them(spark: SparkSession, job: Job, labels: tuple[str, ...]) -> None:
    """It has the newest map, so a column that this one does not keep is null."""
    places = {"warehouse": job.settings.tables.warehouse, "checkpoints": job.settings.state.checkpoints}
    backfill(settings_of(BackfillSettings, places), lambda _line: None)
    again = spark.read.format("delta").load(str(job.settings.tables.warehouse / BACKFILL.name))
    found = {row.device_id: tuple(row[name] for name in labels) for row in again.collect()}
    assert found["both"] == ("chess", None, None)
    assert found["plays"] == ("chess", None, "true")
    assert set(again.columns) == {*SESSIONS.column_names, *labels}
