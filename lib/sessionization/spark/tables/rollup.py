"""Folds changes into one row per session. Neither the order of the changes nor repetition alters the result."""

from collections.abc import Sequence
from datetime import date, timedelta

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from sessionization.core.events import EndReason
from sessionization.durations import DAY_MS
from sessionization.errors import StreamError
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import FIRST_START, SESSIONS
from sessionization.sql_text import quoted_name

LIVE_PART = "live"
"""The value of `_part`, which partitions `sessions`, of live sessions; ended ones have their day."""

OLDEST_EVENT_MS = "min(unix_millis(coalesce(started_at, ended_at)))"
"""SQL of an aggregate of changes: the oldest event time that Starts and ends of sessions show, for `search_since`."""
_EPOCH = date(1970, 1, 1)
_RANKS = " ".join(f"WHEN '{reason}' THEN {reason.rank}" for reason in EndReason)
_RANK = f"CASE end_reason {_RANKS} ELSE 0 END"
SHOWN_END = ("rank", "revision", "ended_at", "foreground_s", "account_id", "end_reason", "platform")
"""The fields of `_shown_end` in `sessions`, before those of the label columns."""


def fold_by_session(changes: DataFrame, labels: Sequence[str] = ()) -> DataFrame:
    """Fold changes into the inputs of each session's row: the smallest Start, the greatest end, the newest clock.

    A session's row is a function of these four columns, and each is a minimum or a maximum. Order and repetition
    of the changes therefore do not matter. Spark compares structs field by field, nulls first; of Starts, nulls last.

    Args:
        changes: rows of `session_changes`, without heartbeats.
        labels: the label columns.

    Returns:
        `device_id`, `session_id`, `started_at`, `_first_start`, `_shown_end`, `updated_at`.
    """
    ranked = changes.withColumn("rank", F.expr(_RANK))
    start, shown_end = F.struct(*FIRST_START, *labels), F.struct(*SHOWN_END, *labels)
    first_start = F.min_by(start, F.when(F.col("change") == "started", _nulls_last(start, labels)))
    return ranked.groupBy("device_id", "session_id").agg(
        F.min("started_at").alias("started_at"),
        first_start.alias("_first_start"),
        F.max(F.when(F.col("change").isin("ended", "resumed"), shown_end)).alias("_shown_end"),
        F.max("processed_at").alias("updated_at"),
    )


@retry_on_conflict
def merge(
    spark: SparkSession, location: TableLocation, changes: DataFrame, since: str, labels: Sequence[str] = ()
) -> Row:
    """Merge changes into `sessions`, as `merge_folded` does, and return its counts; `labels` are its label columns.

    Retries a few times on a conflict, such as a concurrent deletion of old rows.
    """
    return merge_folded(spark, location, fold_by_session(changes, labels), since)


def count_starts_of_ended(sessions: DataFrame, changes: DataFrame, since: str, processed_ms: int) -> Row:
    """Count the Starts, among changes just merged, of sessions that were over: their heartbeats are of no live row.

    Args:
        sessions: the table after the merge. Its files without a row updated by the merge are skipped.
        changes: the merged changes.
        since: as for `merge`.
        processed_ms: the smallest `processed_at` of the changes.

    Returns:
        `reused_ids`, Starts after the known end of the same id (or after another Start, where the new session is over
        too), and `late_starts`, all others: repeated, or first to come, when the session had been forgotten.
    """
    starts = fold_by_session(changes).select(
        "device_id",
        "session_id",
        F.col("_first_start.started_at").alias("new_start"),
        F.col("_shown_end.end_reason").isNull().alias("is_open"),
    )
    is_updated = (F.col("_part") >= since) & (F.col("updated_at") >= F.timestamp_millis(F.lit(processed_ms)))
    over = sessions.where(is_updated & (F.col("status") == "ended")).join(starts, ["device_id", "session_id"])
    return over.selectExpr(
        "count_if(new_start > IF(is_open, ended_at, started_at)) AS reused_ids",
        "count_if(is_open AND new_start <= ended_at) AS late_starts",
    ).collect()[0]


def merge_folded(spark: SparkSession, location: TableLocation, folded: DataFrame, since: str) -> Row:
    """Merge rows of `fold_by_session` into `sessions`; rows that would stay the same are not rewritten.

    Looks for a session's row among the live ones, and in the days from `since` on (`search_since`). The cost depends on
    these days, not on the age of the table. Two MERGEs at once conflict, because each inserts rows into what the other
    one has read: so a run that hung cannot insert a session again that its successor has inserted.

    Raises `StreamError` where this version of Delta does not return the counts of a MERGE.

    Returns:
        The counts `num_inserted_rows` and `num_updated_rows`, among others.
    """
    labels = _labels_of(folded)
    merged = {
        "started_at": F.least("t.started_at", "s.started_at"),
        "_first_start": _first_start(F.col("t._first_start"), F.col("s._first_start"), labels),
        "_shown_end": F.greatest("t._shown_end", "s._shown_end"),
        "updated_at": F.greatest("t.updated_at", "s.updated_at"),
    }
    inserted = {name: F.col(f"s.{name}") for name in merged}
    is_same = F.lit(True)
    for name, value in merged.items():
        is_same &= value.eqNullSafe(F.col(f"t.{name}"))
    keys = {name: F.col(f"s.{name}") for name in ("device_id", "session_id")}
    is_same_session = F.col("t._part") >= since  # the live part is greater than any day
    for name, key in keys.items():
        is_same_session &= F.col(f"t.{name}") == key
    counts = (
        location.delta_table(spark, SESSIONS)
        .alias("t")
        .merge(folded.alias("s"), is_same_session)
        .whenMatchedUpdate(condition=~is_same, set={**session_columns(merged, labels)})
        .whenNotMatchedInsert(values={**keys, **session_columns(inserted, labels)})
        .execute()
    )
    if counts is None:
        msg = (
            f"a MERGE into {SESSIONS.name} returned no counts, so this version of Delta is too old: run the job with "
            "Delta 4.4 (Databricks Runtime 19)"
        )
        raise StreamError(msg)
    return counts.collect()[0]


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


def session_columns(folded: dict[str, Column], labels: Sequence[str] = ()) -> dict[str, Column]:
    """The columns of a session's row, without its key (docs/session-rules.md, "A late End", "The `sessions` table").

    They are computed from the four folded columns.

    If the Start is known, an orphaned end shows as reported, because the device did report it. `_shown_end`
    retains the original reason and rank, so that an End that came in time still ranks higher.

    A `resumed` is an inferred end without time and reason: if it is the one shown, the session is live.
    """
    started_at, start, end = folded["started_at"], folded["_first_start"], folded["_shown_end"]
    is_over = end["end_reason"].isNotNull()  # a `resumed` has none
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
        "revision": F.when(is_over, end["revision"]).otherwise(0),
        "_part": _part(is_over, started_at, ended_at),
        # A MERGE parses names, and a kept column may be called `order`.
        **{quoted_name(name): F.coalesce(start[name], end[name]) for name in labels},
    }


def to_session_rows(folded: DataFrame) -> DataFrame:
    """The columns of `sessions`, computed from rows of `fold_by_session`."""
    folded_columns = {name: F.col(name) for name in ("started_at", "_first_start", "_shown_end", "updated_at")}
    labels = _labels_of(folded)
    columns = session_columns(folded_columns, labels)
    shown = [columns.get(name, F.col(name)).alias(name) for name in SESSIONS.column_names]
    return folded.select(*shown, *(columns[quoted_name(name)].alias(name) for name in labels))


def _first_start(known: Column, new: Column, labels: Sequence[str]) -> Column:
    """The smaller of two Starts, of which either may be null."""
    is_smaller = new.isNotNull() & (_nulls_last(new, labels) < _nulls_last(known, labels))
    return F.when(known.isNull() | is_smaller, new).otherwise(known)


def _nulls_last(start: Column, labels: Sequence[str]) -> Column:
    """What orders Starts: their fields, nulls last."""
    return F.struct(*(part for name in (*FIRST_START, *labels) for part in (start[name].isNull(), start[name])))


def _labels_of(folded: DataFrame) -> list[str]:
    names: list[str] = folded.schema["_first_start"].dataType.names  # type: ignore[attr-defined]
    return names[len(FIRST_START) :]


def _part(is_over: Column, started_at: Column, ended_at: Column) -> Column:
    day = F.floor(F.unix_millis(F.coalesce(started_at, ended_at)) / DAY_MS)  # in UTC, whatever Spark's time zone
    return F.when(is_over, F.date_from_unix_date(day.cast("int")).cast("string")).otherwise(LIVE_PART)
