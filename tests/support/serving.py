"""The job serve_sessions as a process; what Postgres has to hold, by the Delta tables, and how it differs."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from sessionization_laptop.postgres import Postgres
from tests.support.job import ROOT, Job

SCHEMA = "sessionization"
COLUMNS = ("device_id", "session_id", "account_id", "platform", "started_at", "ended_at", "updated_at")


class ServingJob(Job):
    """Serves the tables of a warehouse."""

    def __init__(self, folder: Path, warehouse: Path, postgres: Postgres, *options: str) -> None:
        folder.mkdir()
        self._postgres = postgres
        super().__init__(folder, *options, entry=(ROOT / "jobs" / "serve_sessions.py",))
        self.warehouse = warehouse
        os.environ["SERVING_PASSWORD"] = postgres.password

    @property
    def is_running(self) -> bool:
        return self._running().poll() is None

    def place_options(self) -> tuple[str, ...]:
        login = ("--postgres", self._postgres.conninfo, "--password", "env:SERVING_PASSWORD")
        return (*self.table_options(), *login)


def in_postgres(connection: psycopg.Connection[Any], schema: str, labels: tuple[str, ...] = ()) -> list[tuple]:
    names = ", ".join(f'"{name}"' for name in (*COLUMNS, *labels))
    return connection.execute(f"SELECT {names} FROM {schema}.served_sessions ORDER BY 1, 2").fetchall()


def in_delta(sessions: DataFrame, labels: tuple[str, ...] = ()) -> list[tuple]:
    """Rows of `sessions` as Postgres has them."""
    rows = sessions.select(*(f"`{name}`" for name in (*COLUMNS, *labels))).orderBy("device_id", "session_id")
    return [tuple(row.values()) for row in rows.toArrow().to_pylist()]


def differences(
    spark: SparkSession,
    location: TableLocation,
    connection: psycopg.Connection[Any],
    schema: str,
    kept: timedelta,
    labels: tuple[str, ...] = (),
) -> list[tuple]:
    """Rows that only one of the two has; ended ones count only where both must have them, or neither may."""
    since = datetime.now(UTC) - kept + timedelta(minutes=1)
    served, sessions = in_postgres(connection, schema, labels), in_delta(location.read(spark.read, SESSIONS), labels)
    ended = COLUMNS.index("ended_at")
    expected = {row for row in sessions if row[ended] is None or row[ended] >= since}
    return sorted({row for row in served if row[ended] is None or row[ended] >= since} ^ expected, key=str)
