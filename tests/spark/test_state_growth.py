"""The alert on growth goes off when state is many times what it was the day before, and not for want of one."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from tests.bundle.resolve import resolve
from tests.bundle.sources import ROOT, read_sources

ALERT = resolve(read_sources(ROOT), "prod").resources["alerts"]["state_growth"]
DAY = timedelta(days=1)


def growth(spark: SparkSession, *rows: tuple[timedelta, int | None], query: str = "sessionize") -> float | None:
    now = datetime.now(UTC)
    told = [(query, now - ago, state_rows) for ago, state_rows in rows]
    frame = spark.createDataFrame(told, "query string, processed_at timestamp, state_rows bigint")
    frame.createOrReplaceTempView("progress_of_state")
    [row] = spark.sql(
        ALERT["query_text"].replace("`main`.`gaming_sessions_prod`.stream_progress", "progress_of_state")
    ).collect()
    return row.growth


def test_state_is_compared_with_the_same_hour_of_the_day_before(spark: SparkSession) -> None:
    moment = timedelta(seconds=1)
    threshold = float(ALERT["evaluation"]["threshold"]["value"]["double_value"])
    assert growth(spark, (DAY, 10_000), (DAY + moment, 9_000), (12 * moment, 99_000), (moment, 40_000)) == 4 > threshold
    assert growth(spark, (DAY, 10_000), (moment, 20_000)) == 2 < threshold
    assert growth(spark, (DAY, 10), (moment, 900)) < 1
    assert growth(spark, (moment, 5_000_000)) == 1
    assert growth(spark, (2 * DAY, 10), (moment, 5_000_000)) == 1
    assert growth(spark, (DAY, 10_000), (moment, 99_000), query="archive") in {None, 1}
