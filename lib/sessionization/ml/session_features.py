"""What is known of a session while it is live, and how long it lasted, as far as that was known at an instant.

What counts as an end:

- `reported` and `superseded` are ends: a message of the device says when the session was over.
- `live` sessions are censored: they last at least until the instant of observation.
- `timed_out` sessions are left out. Nobody knows when they ended: between a Start and an End a device sends nothing, so
  the last instant at which such a session certainly went on is its Start. Censored there it would say nothing, and its
  `ended_at`, the start plus the timeout, would say that it lasted for hours.
- `orphaned` ends are left out: they have no start, so no length.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sessionization.durations import DAY_MS

FEATURES = (
    "is_console",
    "hour_sin",
    "hour_cos",
    "is_weekend",
    "has_history",
    "log_earlier_sessions",
    "mean_log_length",
    "last_log_length",
)
"""The columns that a model sees, all of type double, in this order. `add_features` says what they hold."""
_ENDS = ("reported", "superseded")
_EPOCH_WEEKDAY = 3
"""1970-01-01 was a Thursday; Monday is 0."""
_SATURDAY = 5


def observed_sessions(sessions: DataFrame, since_ms: int, until_ms: int) -> DataFrame:
    """The sessions that started in a span, as far as they were known at its end.

    Args:
        sessions: rows of the table `sessions`.
        since_ms: start of the span (inclusive), UTC milliseconds.
        until_ms: end of the span (exclusive), and the instant of observation. Later ends are not known yet.

    Returns:
        `device_id`, `session_id`, `account_id`, `platform`, `started_at`, `player` (the account, or the device where
        there is none), `started_ms`, `ended_ms` (null unless ended), `has_ended`, and `length_s` (whole seconds,
        rounded up, at least 1): the length, or for a session that has not ended its age.
    """
    started_ms, ended_ms = F.unix_millis("started_at"), F.unix_millis("ended_at")
    is_in_span = (F.col("started_at") >= _instant(since_ms)) & (F.col("started_at") < _instant(until_ms))
    is_usable = F.col("end_reason").isNull() | F.col("end_reason").isin(*_ENDS)
    has_ended = F.coalesce(ended_ms <= until_ms, F.lit(False))
    known_until_ms = F.when(has_ended, ended_ms).otherwise(F.lit(until_ms))
    return sessions.where(is_in_span & is_usable).select(
        "device_id",
        "session_id",
        "account_id",
        "platform",
        "started_at",
        F.coalesce(F.concat(F.lit("account "), "account_id"), F.concat(F.lit("device "), "device_id")).alias("player"),
        started_ms.alias("started_ms"),
        F.when(has_ended, ended_ms).alias("ended_ms"),
        has_ended.alias("has_ended"),
        F.greatest(F.ceil((known_until_ms - started_ms) / 1_000), F.lit(1)).cast("long").alias("length_s"),
    )


def add_features(observed: DataFrame) -> DataFrame:
    """Add `FEATURES` to rows of `observed_sessions`.

    - `is_console`: 1 for a console, 0 for a PC.
    - `hour_sin`, `hour_cos`: the time of day of the start (UTC) on a circle.
    - `is_weekend`: 1 if it started on Saturday or Sunday (UTC). Single days would need several weeks to learn from.
    - `has_history`: 1 if an earlier session of the player is known. Without one the next three are 0.
    - `log_earlier_sessions`: the logarithm of 1 plus their number.
    - `mean_log_length`, `last_log_length`: the mean logarithm of their lengths in seconds, and that of the last one.

    No feature knows the future: an earlier session is one that **ended before this one started**. The rows hold all
    the history that there is, so `observed` must reach back far enough.
    """
    key = ("device_id", "session_id")
    at_ends = observed.where("has_ended").select(
        "player", F.col("ended_ms").alias("at_ms"), F.log("length_s").alias("log_length"),
        *(F.lit(None).cast(type_).alias(name) for name, type_ in zip(key, ("string", "long"), strict=True)),
    )  # fmt: skip
    at_starts = observed.select(
        "player", F.col("started_ms").alias("at_ms"), F.lit(None).cast("double").alias("log_length"), *key
    )
    # By value of at_ms, not by row: what ended at the very instant of the start is not earlier.
    before = Window.partitionBy("player").orderBy("at_ms").rangeBetween(Window.unboundedPreceding, -1)
    last = F.max(F.when(F.col("log_length").isNotNull(), F.struct("at_ms", "log_length"))).over(before)
    history = (
        at_starts.unionByName(at_ends)
        .select(
            *key,
            F.count("log_length").over(before).alias("earlier"),
            F.avg("log_length").over(before).alias("mean_log_length"),
            last["log_length"].alias("last_log_length"),
        )
        .where("session_id IS NOT NULL")
        .select(
            *key,
            F.least("earlier", F.lit(1)).cast("double").alias("has_history"),
            F.log1p("earlier").alias("log_earlier_sessions"),
            F.coalesce("mean_log_length", F.lit(0.0)).alias("mean_log_length"),
            F.coalesce("last_log_length", F.lit(0.0)).alias("last_log_length"),
        )
    )
    turn = 2 * F.pi() * (F.col("started_ms") % DAY_MS) / DAY_MS
    weekday = (F.floor(F.col("started_ms") / DAY_MS) + _EPOCH_WEEKDAY) % 7
    return (
        observed.withColumn("is_console", (F.col("platform") == "console").cast("double"))
        .withColumn("hour_sin", F.sin(turn))
        .withColumn("hour_cos", F.cos(turn))
        .withColumn("is_weekend", (weekday >= _SATURDAY).cast("double"))
        .join(history, list(key))
    )


def _instant(instant_ms: int) -> Column:
    return F.timestamp_millis(F.lit(instant_ms))
