"""How many sessions an inactivity timeout would end too early, by the silences in archived messages."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sessionization.durations import MINUTE_MS
from sessionization.notebook.notebook_tables import ArchivedTablesSettings
from sessionization.settings.rule_settings import RuleSettings
from sessionization.spark.replay.archived_events import archived_messages, read_events
from sessionization.spark.tables.location import TableLocation

TIMEOUTS_MIN: Final = (1, 2, 5, 10, 30)
_SESSION = ("device_id", "session_id")


def archived_events(spark: SparkSession, settings: ArchivedTablesSettings, days: int = 1) -> DataFrame:
    """The Starts, Ends and Activities that came within the last days, as the settings' event map has them.

    It reads `raw_events`, or the tables that the map names as its streams.
    """
    event_map, location = settings.event_map, TableLocation.of(settings.tables)
    archives = event_map.stream_without_table() is not None
    messages = archived_messages(spark, location, event_map, archives=archives)
    recent = messages.where(F.col("ingested_at") >= F.expr(f"current_timestamp() - INTERVAL {days} DAYS"))
    return read_events(recent, RuleSettings().of_event_times, event_map, has_activity=True)


def false_ends(events: DataFrame, timeouts_min: Sequence[int] = TIMEOUTS_MIN) -> DataFrame:
    """The share of sessions that were silent for a timeout, and then were heard of again.

    A silence lasts from one arrival to the next, which is what the timeout goes by; where it is longer in event time,
    as long as there, because files may come in bulk. As in rule A1, only a Start or an Activity that is newer in event
    time than all before it is a sign of life. What comes after the first End does not count.

    Args:
        events: `device_id`, `session_id`, `is_start` (null for an Activity), `event_ms`, `ingested_ms`.
        timeouts_min: the timeouts to try, in minutes.

    Returns:
        Per timeout `minutes`, `sessions`, and in percent of these `false_percent`: `went_on_percent`, of which a sign
        came (they would be resumed), and `ended_percent`, of which only the End came (it would correct the end).
    """
    by_arrival = Window.partitionBy(*_SESSION).orderBy("ingested_ms", "event_ms")
    before = by_arrival.rowsBetween(Window.unboundedPreceding, -1)
    known = events.withColumn("is_end", F.coalesce(~F.col("is_start"), F.lit(False)))
    known = known.withColumns(
        {
            "is_over": F.coalesce(F.bool_or("is_end").over(before), F.lit(False)),
            "newest_ms": F.max(F.expr("IF(is_end, NULL, event_ms)")).over(before),
        }
    )
    heard = known.where("NOT is_over AND (is_end OR newest_ms IS NULL OR event_ms > newest_ms)")
    since_arrival_ms = F.col("ingested_ms") - F.lag("ingested_ms").over(by_arrival)
    silences = heard.withColumn("silence_ms", F.greatest(since_arrival_ms, F.expr("event_ms - newest_ms")))
    sessions = (
        silences.groupBy(*_SESSION)
        .agg(
            F.max("silence_ms").alias("longest_ms"),
            F.max(F.expr("IF(is_end, NULL, silence_ms)")).alias("longest_between_signs_ms"),
            F.bool_or(~F.col("is_end")).alias("has_signs"),
        )
        .where("has_signs")
    )
    tried = sessions.withColumn("minutes", F.explode(F.array(*map(F.lit, timeouts_min))))
    counted = tried.groupBy("minutes").agg(
        F.count("*").alias("sessions"),
        _percent(f"longest_ms >= minutes * {MINUTE_MS}").alias("false_percent"),
        _percent(f"longest_between_signs_ms >= minutes * {MINUTE_MS}").alias("went_on_percent"),
    )
    return counted.withColumn("ended_percent", F.col("false_percent") - F.col("went_on_percent")).orderBy("minutes")


def _percent(condition: str) -> Column:
    return 100 * F.count_if(F.expr(condition)) / F.count("*")
