"""The invariants of the operator's state after every micro-batch (docs/state.md), checked on the state as read back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sessionization.core.session_state import Rules, RulesInForce
from sessionization.spark.checkpoint.state_layout import StateLayout, key_hash_column
from sessionization.spark.operator.group_store import BUCKETS, RECENT


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant: how many entries, devices or keys break it, and the first of them; None where none does."""

    name: str
    broken: int
    example: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.broken:,} times not, as for {self.example}"


@dataclass(frozen=True, slots=True)
class StateContext:
    """The context in which the state was written: the clock of its micro-batch, the rules, layout and partitions."""

    clock_ms: int
    in_force: RulesInForce
    layout: StateLayout
    partitions: int

    @property
    def rules(self) -> Rules | None:
        """The rules in force; None while entries and timers of former rules may remain."""
        previous = self.in_force.previous
        if previous is not None:
            settled_ms = self.in_force.previous_until_ms + previous.late_retention_ms + previous.heartbeat_ms
            if self.clock_ms <= settled_ms:
                return None
        return self.in_force.at(self.clock_ms)


ONE_LIVE = "a device has at most one live session"
EARLY_ENOUGH = "a timer is set for the first instant at which the rules have something to do, or earlier"


def count_violations(entries: DataFrame, timers: DataFrame, context: StateContext) -> list[Invariant]:
    """The invariants that are checked in a context, in the order of docs/state.md.

    Args:
        entries: as `StateReader.entries`.
        timers: as `StateReader.timers`, of the same micro-batch.
        context: the context of that micro-batch.
    """
    entry = F.concat_ws(" ", F.lit("device"), "device_id", F.lit("session"), "session_id")
    device, key = (
        F.concat_ws(" ", F.lit(kind), name) for kind, name in (("device", "device_id"), ("key", "grouping_key"))
    )
    return [
        *_count(entries, _entry_checks(context), entry),
        *_count(_by_device(entries), _device_checks(context), device),
        *_count(_by_key(entries, timers), _key_checks(context), key),
    ]


def _count(rows: DataFrame, checks: Mapping[str, Column], label: Column) -> Iterator[Invariant]:
    """Count for each check the rows that satisfy its condition, all checks in one pass."""
    counts = [
        column
        for number, is_broken in enumerate(checks.values())
        for column in (
            F.count_if(F.coalesce(is_broken, F.expr("false"))).alias(f"count_{number}"),
            F.min(F.when(is_broken, label)).alias(f"example_{number}"),
        )
    ]
    found = rows.agg(*counts).first()
    assert found is not None
    for number, name in enumerate(checks):
        yield Invariant(name, found[f"count_{number}"], found[f"example_{number}"])


def _entry_checks(context: StateContext) -> dict[str, Column]:
    """The invariants of a single entry, each with the condition that breaks it."""
    is_at_home = F.col("grouping_key") == context.layout.grouping_key()
    if context.layout.device_groups is not None:
        is_at_home &= F.col("bucket").isin(RECENT) | (F.col("bucket") == context.layout.bucket(BUCKETS))
    checks = {
        "an entry lies under its device's grouping key, in its bucket": ~is_at_home,
        "an entry lies in its grouping key's partition": F.col("partition") != _partition(context),
    }
    if (rules := context.rules) is not None:
        deadline_ms = F.when(F.col("status") == "live", F.col("opened_ms") + rules.session_timeout_ms).otherwise(
            F.col("since_ms") + rules.late_retention_ms
        )
        checks["no entry is past its deadline"] = deadline_ms + rules.heartbeat_ms <= F.lit(context.clock_ms)
    return checks


def _by_device(entries: DataFrame) -> DataFrame:
    """One row per device that summarises its entries."""
    in_order = Window.partitionBy("device_id").orderBy("started_ms", "session_id")
    is_session = F.col("status") != "pending_end"
    later = in_order.rowsBetween(1, Window.unboundedFollowing)
    next_ms = F.when(is_session, F.min(F.when(is_session, F.col("started_ms"))).over(later))
    is_live = F.col("status") == "live"
    return (
        entries.withColumn("next_ms", next_ms)
        .groupBy("device_id")
        .agg(
            F.count("*").alias("entries"),
            F.count_if(is_live).alias("live"),
            F.countDistinct("session_id").alias("ids"),
            F.count_if(F.col("next_ms").isNotNull() & (is_live | (F.col("ended_ms") > F.col("next_ms")))).alias(
                "overlaps"
            ),
        )
    )


def _device_checks(context: StateContext) -> dict[str, Column]:
    checks = {
        ONE_LIVE: F.col("live") > 1,
        "a device remembers a session once": F.col("ids") < F.col("entries"),
        "the sessions of a device do not overlap, and a live one is the last": F.col("overlaps") > 0,
    }
    if (rules := context.rules) is not None:
        checks["a device remembers no more than its bound"] = F.col("entries") > rules.max_sessions_per_device
    return checks


def _by_key(entries: DataFrame, timers: DataFrame) -> DataFrame:
    """One row per grouping key that holds an entry or a timer."""
    entries_by_key = entries.groupBy("grouping_key").agg(
        F.count("*").alias("entries"),
        F.bool_or(F.col("status") == "live").alias("is_live"),
        F.min(F.when(F.col("status") != "live", F.col("since_ms"))).alias("oldest_ms"),
    )
    due = F.unix_millis("due_at")
    timers_by_key = timers.groupBy("grouping_key").agg(
        F.min(due).alias("due_ms"), F.collect_set("partition").alias("partitions")
    )
    return entries_by_key.join(timers_by_key, "grouping_key", "full")


def _key_checks(context: StateContext) -> dict[str, Column]:
    clock = F.lit(context.clock_ms)
    elsewhere = F.array_remove("partitions", _partition(context).cast("int"))
    checks = {
        "a timer is set where something is remembered": F.col("due_ms").isNull(),
        "no timer is overdue": F.col("due_ms") <= clock,
        "a timer lies in its grouping key's partition": F.array_size(elsewhere) > 0,
    }
    if (rules := context.rules) is not None:
        phase = key_hash_column("grouping_key") % rules.heartbeat_ms
        deadline = F.col("oldest_ms") + rules.late_retention_ms
        earliest = F.when(F.col("is_live"), clock + 1).otherwise(F.greatest(deadline, clock + 1))
        expected_ms = earliest + F.pmod(phase - earliest, F.lit(rules.heartbeat_ms))
        checks[EARLY_ENOUGH] = F.col("entries").isNotNull() & (F.col("due_ms") > expected_ms)
    return checks


def _partition(context: StateContext) -> Column:
    """The partition in which Spark stores a grouping key, from the hash of Spark's shuffle."""
    return F.pmod(F.hash("grouping_key"), F.lit(context.partitions))
