"""The alert on growth goes off when the state is many times as large as the day before, if there was a day before."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from tests.bundle.prod import ALERTS, SCHEMA

pytestmark = pytest.mark.spark

ALERT = ALERTS["state_growth"]
DAY = timedelta(days=1)


def growth_of_state(
    spark: SparkSession, *rows: tuple[timedelta, int | None], query: str = "sessionize"
) -> float | None:
    now = datetime.now(UTC)
    progress = [(query, now - ago, state_entries) for ago, state_entries in rows]
    frame = spark.createDataFrame(progress, "query string, processed_at timestamp, state_entries bigint")
    frame.createOrReplaceTempView("progress_of_state")
    [row] = spark.sql(ALERT["query_text"].replace(f"{SCHEMA}stream_progress", "progress_of_state")).collect()
    return row.growth


def test_state_is_compared_with_the_same_hour_of_the_day_before(spark: SparkSession) -> None:
    moment = timedelta(seconds=1)
    threshold = float(ALERT["evaluation"]["threshold"]["value"]["double_value"])
    assert (
        growth_of_state(spark, (DAY, 10_000), (DAY + moment, 9_000), (12 * moment, 99_000), (moment, 40_000))
        == 4
        > threshold
    )
    assert growth_of_state(spark, (DAY, 10_000), (moment, 20_000)) == 2 < threshold
    assert growth_of_state(spark, (DAY, 10), (moment, 900)) < 1
    assert growth_of_state(spark, (moment, 5_000_000)) == 1
    assert growth_of_state(spark, (2 * DAY, 10), (moment, 5_000_000)) == 1
    assert growth_of_state(spark, (DAY, 10_000), (moment, 99_000), query="archive") in {None, 1}


LATE = ALERTS["late_heartbeats"]


def intervals_late(spark: SparkSession, *batches: tuple[int, int, int | None]) -> float:
    """The alert's value; per micro-batch: seconds since its start, seconds that it took, p99 of the lateness in ms."""
    now = datetime.now(UTC)
    rows = [
        ("sessionize", now - timedelta(seconds=ago_s), took_s * 1_000, int(late_ms is not None), late_ms)
        for ago_s, took_s, late_ms in batches
    ]
    columns = "query string, processed_at timestamp, batch_ms bigint, heartbeats bigint, lateness_p99_ms bigint"
    spark.createDataFrame(rows, columns).createOrReplaceTempView("progress_of_beats")
    query = LATE["query_text"].replace(f"{SCHEMA}stream_progress", "progress_of_beats")
    return float(spark.sql(query).collect()[0].intervals_late)


def test_heartbeats_that_stay_late_set_off_the_alert_and_one_pause_does_not(spark: SparkSession) -> None:
    threshold = float(LATE["evaluation"]["threshold"]["value"]["double_value"])
    assert intervals_late(spark, (500, 50, 60_000), (300, 50, 75_000), (60, 50, 90_000)) == 2 > threshold
    assert intervals_late(spark, (2_400, 700, 700_000), (1_700, 800, 800_000), (900, 850, 900_000)) > threshold
    assert intervals_late(spark, (500, 50, 60_000), (300, 1, 900), (60, 50, 90_000)) < threshold
    assert intervals_late(spark, (100, 50, 600_000), (40, 9, 90_000)) == 0, "a restart works off what it missed"
    assert intervals_late(spark, (50, 1, None), (40, 1, None), (30, 1, None)) == 0
    assert intervals_late(spark, (7_000, 5, 90_000), (6_000, 5, 90_000), (5_000, 5, 90_000)) == 0
