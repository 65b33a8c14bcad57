"""Folds changes into one row per session. Neither the order of the changes nor repetition alters the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.core.events import EndReason
from sessionization.durations import DAY_MS
from sessionization.errors import StreamError
from sessionization.session_conf import added_conf
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.lease_claim import no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS

LIVE_PART = "live"
"""The value of `_part`, which partitions `sessions`, of live sessions; ended ones have their day."""

OLDEST_EVENT_MS = "min(unix_millis(coalesce(started_at, ended_at)))"
"""SQL of an aggregate of changes: the oldest event time that Starts and ends of sessions show, for `search_since`."""
_EPOCH = date(1970, 1, 1)
_LAST_DAY = "9999-12-31"
_NUMBER_CONF = {"spark.databricks.delta.write.txnAppId": "sessionization.rollup"}
_NUMBER = "spark.databricks.delta.write.txnVersion"
_RANKS = " ".join(f"WHEN '{reason}' THEN {reason.rank}" for reason in EndReason)
_RANK = f"CASE end_reason {_RANKS} ELSE 0 END"
_FIRST_START = ("started_at", "account_id", "platform")
_SHOWN_END = ("rank", "revision", "ended_at", "foreground_s", "account_id", "end_reason", "platform")


def fold_by_session(changes: DataFrame) -> DataFrame:
    """Fold changes into the inputs of each session's row: the smallest Start, the greatest end, the newest clock.

    A session's row is a function of these four columns, and each is a minimum or a maximum. Order and repetition
    of the changes therefore do not matter. Spark compares structs field by field, nulls first.

    Args:
        changes: rows of `session_changes`, without heartbeats.

    Returns:
        `device_id`, `session_id`, `started_at`, `_first_start`, `_shown_end`, `updated_at`.
    """
    ranked = changes.withColumn("rank", F.expr(_RANK))
    return ranked.groupBy("device_id", "session_id").agg(
        F.min("started_at").alias("started_at"),
        F.min(F.when(F.col("change") == "started", F.struct(*_FIRST_START))).alias("_first_start"),
        F.max(F.when(F.col("change") == "ended", F.struct(*_SHOWN_END))).alias("_shown_end"),
        F.max("processed_at").alias("updated_at"),
    )


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """`sessions`, and the number of one MERGE into it: greater than that of any MERGE before (docs/adr/0026)."""

    table: DeltaTable
    number: int

    @classmethod
    def open(cls, spark: SparkSession, location: TableLocation, check_lease: Callable[[], None] = no_lease) -> Self:
        """Raises `StreamError` where this run may not write any more.

        The MERGE sets its number in this Spark session, so no other thread may write with the session meanwhile.
        """
        table = location.delta_table(spark, SESSIONS)
        number = int(table.history(1).collect()[0].version) + 1
        check_lease()  # after the number: a run without a lease must not have a number above its successor's
        return cls(table, number)


@retry_on_conflict
def merge(target: MergeTarget, changes: DataFrame, since: str, *, finds_days: bool = False) -> None:
    """Merge changes into `sessions`, as `merge_folded` does.

    Retries a few times on a conflict, such as a concurrent deletion of old rows.

    With `finds_days` a first query finds the days that have one of the session ids, whatever the device, and the MERGE
    reads no others. That saves time if the days from `since` on have many millions of sessions.
    """
    days = _days_with_ids(target.table.toDF(), changes, since) if finds_days else None
    merge_folded(target, fold_by_session(changes), since, days)


def _days_with_ids(sessions: DataFrame, changes: DataFrame, since: str) -> list[str]:
    """The days from `since` on that have a session id of the changes."""
    rows = sessions.where(F.col("_part").between(since, _LAST_DAY))
    found = rows.join(changes.select("session_id"), "session_id", "left_semi").select("_part").distinct().collect()
    return [row[0] for row in found]


def merge_folded(target: MergeTarget, folded: DataFrame, since: str, days: Sequence[str] | None = None) -> Row:
    """Merge rows of `fold_by_session` into `sessions`; rows that would stay the same are not rewritten.

    Looks for a session's row among the live ones, and in the days from `since` on (`search_since`), or in these `days`
    alone. The cost depends on these days, not on the age of the table.

    Delta refuses the MERGE if the table has one with the target's number or a greater one. So a run that hung while its
    successor took the lease adds no second row of a session, in a day that it has not read.

    Returns:
        The counts `num_inserted_rows` and `num_updated_rows`, among others.

    Raises `StreamError` where Delta refuses it.
    """
    merged = {
        "started_at": F.least("t.started_at", "s.started_at"),
        "_first_start": F.least("t._first_start", "s._first_start"),
        "_shown_end": F.greatest("t._shown_end", "s._shown_end"),
        "updated_at": F.greatest("t.updated_at", "s.updated_at"),
    }
    inserted = {name: F.col(f"s.{name}") for name in merged}
    is_same = F.lit(True)
    for name, value in merged.items():
        is_same &= value.eqNullSafe(F.col(f"t.{name}"))
    keys = {name: F.col(f"s.{name}") for name in ("device_id", "session_id")}
    conf = _NUMBER_CONF | {_NUMBER: str(target.number)}
    with added_conf(target.table.toDF().sparkSession, conf) as is_numbered:
        if days is None or not is_numbered:
            is_same_session = F.col("t._part") >= since  # the live part is greater than any day
        else:
            is_same_session = F.col("t._part").isin(LIVE_PART, *days)
        for name, key in keys.items():
            is_same_session &= F.col(f"t.{name}") == key
        counts = (
            target.table.alias("t")
            .merge(folded.alias("s"), is_same_session)
            .whenMatchedUpdate(condition=~is_same, set={**session_columns(merged)})
            .whenNotMatchedInsert(values={**keys, **session_columns(inserted)})
            .execute()
            .first()
        )
    if counts is None:
        msg = (
            f"another run has merged changes into {SESSIONS.name} since this one looked at it, so this one has merged "
            "nothing: stop the other run, and start again with the same options; nothing is lost"
        )
        raise StreamError(msg)
    return counts


def search_since(oldest_ms: int, lookback_ms: int) -> str:
    """The first day (UTC), as text, that may hold a row of a session whose message has the event time `oldest_ms`.

    The event times of one session lie at most `lookback_ms` apart (`lookback`). An older row of the same session id is
    taken for another session.
    """
    day = oldest_ms // DAY_MS - (1 + -(-lookback_ms // DAY_MS))
    return (_EPOCH + timedelta(days=max(day, (date.min - _EPOCH).days))).isoformat()


def lookback(max_event_age_ms: int, session_timeout_ms: int) -> int:
    """How far apart the event times of one session may lie: a valid event is no older, and a session no longer."""
    return max_event_age_ms + session_timeout_ms


def oldest_event_ms(changes: DataFrame) -> int | None:
    """`OLDEST_EVENT_MS` of changes; None without rows."""
    oldest: int | None = changes.selectExpr(OLDEST_EVENT_MS).collect()[0][0]
    return oldest


def session_columns(folded: dict[str, Column]) -> dict[str, Column]:
    """The columns of a session's row, without its key (docs/session-rules.md, "A late End", "The `sessions` table").

    They are computed from the four folded columns.

    If the Start is known, an orphaned end shows as reported, because the device did report it. `_shown_end`
    retains the original reason and rank, so that an End that came in time still ranks higher.
    """
    started_at, start, end = folded["started_at"], folded["_first_start"], folded["_shown_end"]
    is_over = end.isNotNull()
    ended_after_forgetting = started_at.isNotNull() & (end["end_reason"] == "orphaned")
    ended_at = F.when(is_over, F.greatest(end["ended_at"], started_at))
    return folded | {
        "account_id": F.coalesce(start["account_id"], end["account_id"]),
        "platform": F.coalesce(start["platform"], end["platform"]),
        "status": F.when(is_over, "ended").otherwise("live"),
        "ended_at": ended_at,
        "duration_ms": F.unix_millis(ended_at) - F.unix_millis(started_at),
        "foreground_s": end["foreground_s"],
        "end_reason": F.when(ended_after_forgetting, "reported").otherwise(end["end_reason"]),
        "revision": F.coalesce(end["revision"], F.lit(0)),
        "_part": _part(is_over, started_at, ended_at),
    }


def to_session_rows(folded: DataFrame) -> DataFrame:
    """The columns of `sessions`, computed from rows of `fold_by_session`."""
    folded_columns = {name: F.col(name) for name in ("started_at", "_first_start", "_shown_end", "updated_at")}
    columns = session_columns(folded_columns)
    return folded.select(*(columns.get(name, F.col(name)).alias(name) for name in SESSIONS.column_names))


def with_part(rows: DataFrame) -> DataFrame:
    """Rows of `sessions` with the column `_part`, which earlier versions did not have."""
    return rows.withColumn("_part", _part(F.col("status") == "ended", F.col("started_at"), F.col("ended_at")))


def _part(is_over: Column, started_at: Column, ended_at: Column) -> Column:
    return F.when(is_over, _day(F.coalesce(started_at, ended_at))).otherwise(LIVE_PART)


def _day(instant: Column) -> Column:
    """The day (UTC) of an instant as text, whatever the session's time zone in Spark."""
    return F.date_from_unix_date(F.floor(F.unix_millis(instant) / DAY_MS).cast("int")).cast("string")
