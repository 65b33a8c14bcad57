"""The job, on tables whose changes come while it runs."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.durations import HOUR_MS, MINUTE_MS
from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.serving.serving_job import serve_sessions
from sessionization.serving.serving_settings import ServingSettings
from sessionization.serving.session_rows import newest_update
from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization.spark.output.changes_topic import publish
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS
from sessionization_laptop.broker import Broker
from sessionization_laptop.postgres import Postgres
from tests.support.changes import frame, random_changes
from tests.support.serving import differences
from tests.support.waiting import wait_for
from tests.support.warehouse import empty_tables, merge_changes

pytestmark = pytest.mark.job

LABELS = ("title", "order")
KEPT = timedelta(hours=1)


class Stand:
    """Tables, and a job that serves them."""

    def __init__(self, spark: SparkSession, folder: Path, postgres: Postgres, schema: str, connection: Any) -> None:
        self.spark, self.schema, self.connection = spark, schema, connection
        self.location = empty_tables(spark, TableLocation(folder / "warehouse"), owner="test")
        fit_to_events(spark, self.location, package_map(DEFAULT), LABELS, has_activity=True)
        self.lines: list[str] = []
        self.settings = {
            "tables": {"warehouse": folder / "warehouse"},
            "postgres": postgres.conninfo,
            "password": "env:SERVING_PASSWORD",
            "postgres_schema": schema,
            "keep_ended": KEPT.total_seconds() * 1000,
            "trigger": 100,
        }
        self._changes = [
            (f"{device_id}, {minutes}", change)
            for minutes in (20, 1)
            for device_id, change in random_changes(minutes, 150, wall_clock_ms() - minutes * MINUTE_MS)
        ]

    @contextmanager
    def running(self, **settings: Any) -> Iterator[None]:
        stop, settings = threading.Event(), self.settings | settings
        with ThreadPoolExecutor(1) as pool:
            self.job = pool.submit(serve_sessions, ServingSettings.model_validate(settings), self.lines.append, stop)
            try:
                yield
            finally:
                stop.set()
            self.job.result()

    def append(self, count: int, *, merges: bool = True, broker: Broker | None = None) -> None:
        """Append the next changes, or publish them, and merge them into `sessions`, as `rollup` does seconds later."""
        changes = frame(self.spark, self._changes[:count], LABELS, has_activity=True)
        del self._changes[:count]
        if broker is not None:
            publish(changes, {"kafka.bootstrap.servers": broker.bootstrap_servers}, OUTPUT_TOPIC)
        else:
            self.location.append(changes, SESSION_CHANGES)
        if merges:
            merge_changes(self.spark, self.location, changes)

    def differences(self) -> list[tuple]:
        if self.job.done():
            self.job.result()
        try:
            return differences(self.spark, self.location, self.connection, self.schema, KEPT, LABELS)
        except psycopg.errors.UndefinedTable:
            return [("nothing is served yet",)]

    def served(self) -> int:
        [(count,)] = self.connection.execute(f"SELECT count(*) FROM {self.schema}.served_sessions")
        return count

    def newest(self) -> datetime:
        [(newest,)] = self.connection.execute(f"SELECT max(updated_at) FROM {self.schema}.served_sessions")
        return newest

    def written(self) -> datetime:
        [(written,)] = self.connection.execute(f"SELECT max(written_at) FROM {self.schema}.serving_progress")
        return written

    def total(self) -> int:
        """How many sessions there are by the changes."""
        changes = self.location.read(self.spark.read, SESSION_CHANGES)
        return changes.select("device_id", "session_id").distinct().count()

    def wait_until_equal(self) -> None:
        wait_for(lambda: not self.differences(), "Postgres to equal sessions", 120)


@pytest.fixture
def stand(
    spark: SparkSession, tmp_path: Path, postgres: Postgres, schema: str, monkeypatch: pytest.MonkeyPatch,
    connection: psycopg.Connection[Any],
) -> Stand:  # fmt: skip
    monkeypatch.setenv("SERVING_PASSWORD", postgres.password)
    return Stand(spark, tmp_path, postgres, schema, connection)


def test_postgres_follows_the_changes(stand: Stand) -> None:
    stand.append(100)
    with stand.running():
        stand.wait_until_equal()  # by the comparison
        for merges in (True, True, False):
            stand.append(40, merges=merges)
            if merges:
                stand.wait_until_equal()  # by the stream
        wait_for(lambda: stand.served() == stand.total(), "changes that `sessions` has not got yet", 120)
    accounts = stand.connection.execute(f"SELECT * FROM {stand.schema}.account_now").fetchall()
    live = stand.connection.execute(
        f"SELECT account_id, count(*), min(started_at) FROM {stand.schema}.live_sessions "
        "WHERE account_id IS NOT NULL GROUP BY 1"
    ).fetchall()
    assert sorted(row[:3] for row in accounts if row[1]) == sorted(live)
    assert all(played_ms >= 0 for *_, played_ms in accounts)


def test_postgres_follows_the_topic(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization.serving.serving_job._COMPARE_AGAIN_MS", HOUR_MS)
    with Broker(tmp_path / "broker") as broker:
        broker.create_topics({OUTPUT_TOPIC: 2})
        stand.append(100, broker=broker)
        kafka = {"type": "kafka", "bootstrap_servers": broker.bootstrap_servers}
        with stand.running(source=kafka, sink={"type": "kafka"}):
            stand.wait_until_equal()  # by the comparison
            stand.append(50, broker=broker)
            stand.wait_until_equal()  # by the stream
            before = stand.newest()
            stand.append(100, merges=False, broker=broker)
            wait_for(lambda: stand.newest() > before, "changes that `sessions` has not got yet", 120)


def test_a_database_that_was_restored_is_compared_anew(stand: Stand) -> None:
    stand.append(150)
    with stand.running():
        stand.wait_until_equal()
        stand.connection.execute(f"DELETE FROM {stand.schema}.served_sessions")
        stand.connection.execute(f"UPDATE {stand.schema}.serving_progress SET position = 'older'")
        stand.append(20)
        stand.wait_until_equal()
    assert any("compares it anew" in line for line in stand.lines)


def test_what_was_erased_or_changed_by_hand_is_put_right(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization.serving.serving_job._COMPARE_AGAIN_MS", 15_000)
    with stand.running():
        wait_for(lambda: not stand.differences(), "empty tables", 120)
        stand.append(150)
        stand.wait_until_equal()
    of_ann = stand.location.read(stand.spark.read, SESSIONS).where("account_id = 'ann'").collect()
    is_of_ann = " OR ".join(f"(device_id = '{row.device_id}' AND session_id = {row.session_id})" for row in of_ann)
    for table in (SESSIONS, SESSION_CHANGES):
        stand.spark.sql(f"DELETE FROM {stand.location.sql_name(table.name)} WHERE {is_of_ann}")
    stand.connection.execute(f"DELETE FROM {stand.schema}.served_sessions WHERE account_id = 'bob'")
    assert stand.differences()
    stand.append(30)
    with stand.running():
        stand.wait_until_equal()


def test_a_comparison_leaves_what_sessions_has_not_got_yet(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization.serving.serving_job._COMPARE_AGAIN_MS", 15_000)
    with stand.running():
        stand.append(150, merges=False)
        wait_for(lambda: stand.served() == stand.total(), "the changes", 120)
        written = stand.written()
        wait_for(lambda: stand.written() > written, "a comparison", 120)
        assert stand.served() == stand.total()


def test_changes_that_can_no_longer_be_read_begin_anew(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    with stand.running():
        wait_for(lambda: not stand.differences(), "empty tables", 120)
        stand.append(50)
        stand.wait_until_equal()
        monkeypatch.setattr("sessionization.serving.serving_job.newest_update", _fail_once(monkeypatch))
        stand.append(50)
        stand.wait_until_equal()
    assert any("can no longer be read" in line for line in stand.lines)


def _fail_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], int | None]:
    def fail(_rows: Any) -> int | None:
        monkeypatch.setattr("sessionization.serving.serving_job.newest_update", newest_update)
        msg = "files of old commits are gone"
        raise FileNotFoundError(msg)

    return fail


def test_tables_that_are_missing_end_the_start(stand: Stand, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not hold"), stand.running(tables={"warehouse": tmp_path / "x"}):
        pass
