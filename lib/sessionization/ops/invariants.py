"""The invariants of the operator's state after every micro-batch (docs/state.md), checked on the state as read back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sessionization.core.session_state import Rules, RulesInForce
from sessionization.spark.checkpoint.state_layout import StateLayout, key_hash_column
from sessionization.spark.operator.group_store import BUCKETS, RECENT


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that does not hold: the number of entries, devices or keys that break it, and the first of them."""

    invariant: str
    count: int
    example: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.count:,} times not, as for {self.example}"


@dataclass(frozen=True, slots=True)
class StateContext:
    """The context in which the state was written: the clock of its micro-batch, the rules, layout and partitions.

    While timers of former rules may still be set, it is not checked that a key's first timer comes early enough.
    """

    clock_ms: int
    in_force: RulesInForce
    layout: StateLayout
    partitions: int

    @property
    def rules(self) -> Rules:
        return self.in_force.at(self.clock_ms)

    @property
    def largest_rules(self) -> Rules:
        """The largest value of each rule that may have applied to entries in the state."""
        rules, previous = self.in_force.rules, self.in_force.previous or self.in_force.rules
        return Rules(
            max(rules.heartbeat_ms, previous.heartbeat_ms),
            max(rules.session_timeout_ms, previous.session_timeout_ms),
            max(rules.late_retention_ms, previous.late_retention_ms),
            max(rules.max_sessions_per_device, previous.max_sessions_per_device),
        )

    @property
    def is_settled(self) -> bool:
        """Whether no timer of former rules can remain."""
        previous = self.in_force.previous
        if previous is None:
            return True
        lasts_ms = previous.late_retention_ms + previous.heartbeat_ms
        return self.clock_ms > self.in_force.previous_until_ms + lasts_ms


ONE_LIVE = "a device has at most one live session"
EARLY_ENOUGH = "a timer is set for the first instant at which the rules have something to do, or earlier"

_REQUIRED_FIELDS = {
    "live": {"platform", "started_ms", "opened_ms"},
    "closed": {"platform", "started_ms", "ended_ms", "end_reason", "revision", "since_ms", "place"},
    "pending_end": {"platform", "ended_ms", "since_ms", "place"},
}
_OPTIONAL_FIELDS = {
    "live": {"account_id"},
    "closed": {"account_id", "foreground_s"},
    "pending_end": {"account_id", "foreground_s"},
}
_ALL_FIELDS = set.union(*_REQUIRED_FIELDS.values(), *_OPTIONAL_FIELDS.values())


def find_violations(entries: DataFrame, timers: DataFrame, context: StateContext) -> list[Violation]:
    """The invariants that do not hold, in the order of docs/state.md; an empty list for a correct state.

    Args:
        entries: as `StateReader.entries`.
        timers: as `StateReader.timers`, of the same micro-batch.
        context: the context of that micro-batch.
    """
    checks = (
        *_count_violations(
            entries,
            _entry_checks(context),
            F.concat_ws(" ", F.lit("device"), "device_id", F.lit("session"), "session_id"),
        ),
        *_count_violations(
            _by_device(entries), _device_checks(context), F.concat_ws(" ", F.lit("device"), "device_id")
        ),
        *_count_violations(
            _by_key(entries, timers), _key_checks(context), F.concat_ws(" ", F.lit("key"), "grouping_key")
        ),
    )
    return [found for found in checks if found.count]


def invariant_names(context: StateContext) -> list[str]:
    """The names of the invariants that are checked in a context."""
    return [*_entry_checks(context), *_device_checks(context), *_key_checks(context)]


def _count_violations(rows: DataFrame, checks: Mapping[str, Column], label: Column) -> Iterator[Violation]:
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
    for number, invariant in enumerate(checks):
        yield Violation(invariant, found[f"count_{number}"], str(found[f"example_{number}"]))


def _entry_checks(context: StateContext) -> dict[str, Column]:
    """The invariants of a single entry, each with the condition that breaks it."""
    status, clock, longest = F.col("status"), F.lit(context.clock_ms), context.largest_rules
    incomplete = F.expr("false")
    for name, required in _REQUIRED_FIELDS.items():
        lacks_required = [F.col(field).isNull() for field in sorted(required)]
        has_others = [F.col(field).isNotNull() for field in sorted(_ALL_FIELDS - required - _OPTIONAL_FIELDS[name])]
        incomplete |= (status == name) & _any(*lacks_required, *has_others)
    is_at_home = F.col("grouping_key") == context.layout.grouping_key()
    if context.layout.device_groups is not None:
        is_at_home &= F.col("bucket").isin(RECENT) | (F.col("bucket") == context.layout.bucket(BUCKETS))
    return {
        "an entry is live, closed or a pending end": status.isNull() | ~status.isin(*_REQUIRED_FIELDS),
        "an entry has all that its status needs and no more": incomplete,
        "an entry has only values that the job knows": _any(
            ~F.col("platform").isin("pc", "console"),
            ~F.col("end_reason").isin("reported", "superseded", "timed_out"),
            F.col("revision") < 0,
            F.col("place") < 0,
        ),
        "no session ends before it starts": (status == "closed") & (F.col("ended_ms") < F.col("started_ms")),
        "no entry is from after its micro-batch": F.greatest("opened_ms", "since_ms") > clock,
        "no entry is past its deadline": _any(
            (status == "live") & (F.col("opened_ms") + longest.session_timeout_ms + longest.heartbeat_ms <= clock),
            (status != "live") & (F.col("since_ms") + longest.late_retention_ms + longest.heartbeat_ms <= clock),
        ),
        "an entry lies under its device's grouping key, in its bucket": ~is_at_home,
        "an entry lies in its grouping key's partition": F.col("partition") != _partition(context),
    }


def _by_device(entries: DataFrame) -> DataFrame:
    """One row per device that summarises its entries."""
    in_order = Window.partitionBy("device_id").orderBy("started_ms", "session_id")
    next_start = F.when(
        F.col("status") != "pending_end",
        F.min(F.when(F.col("status") != "pending_end", F.col("started_ms"))).over(
            in_order.rowsBetween(1, Window.unboundedFollowing)
        ),
    )
    with_next = entries.withColumn("next_ms", next_start)
    return with_next.groupBy("device_id").agg(
        F.count("*").alias("entries"),
        F.count_if(F.col("status") == "live").alias("live"),
        F.countDistinct("session_id").alias("ids"),
        F.count("place").alias("placed"),
        F.countDistinct("place").alias("places"),
        F.count_if((F.col("status") == "live") & F.col("next_ms").isNotNull()).alias("live_before_another"),
        F.count_if((F.col("status") == "closed") & (F.col("ended_ms") > F.col("next_ms"))).alias("overlaps"),
    )


def _device_checks(context: StateContext) -> dict[str, Column]:
    return {
        ONE_LIVE: F.col("live") > 1,
        "a device remembers a session once": F.col("ids") < F.col("entries"),
        "no two entries of a device have the same place": F.col("places") < F.col("placed"),
        "a device remembers no more than its bound": F.col("entries") > context.largest_rules.max_sessions_per_device,
        "a live session is its device's last": F.col("live_before_another") > 0,
        "the sessions of a device do not overlap": F.col("overlaps") > 0,
    }


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
    rules, clock = context.rules, F.lit(context.clock_ms)
    step, phase = F.lit(rules.heartbeat_ms), key_hash_column("grouping_key") % rules.heartbeat_ms
    deadline = F.col("oldest_ms") + rules.late_retention_ms
    earliest = F.when(F.col("is_live"), clock + 1).otherwise(F.greatest(deadline, clock + 1))
    expected_ms = earliest + F.pmod(phase - earliest, step)
    checks = {
        "a timer is set where something is remembered": F.col("due_ms").isNull(),
        "no timer is overdue": F.col("due_ms") <= clock,
        "a timer lies in its grouping key's partition": F.array_size(
            F.array_remove("partitions", _partition(context).cast("int"))
        )
        > 0,
    }
    if context.is_settled:
        checks[EARLY_ENOUGH] = F.col("entries").isNotNull() & (F.col("due_ms") > expected_ms)
    return checks


def _partition(context: StateContext) -> Column:
    """The partition in which Spark stores a grouping key, from the hash of Spark's shuffle."""
    return F.pmod(F.hash("grouping_key"), F.lit(context.partitions))


def _any(*conditions: Column) -> Column:
    """Whether any condition is true; unknown (null) conditions count as false."""
    is_any_true = F.expr("false")
    for condition in conditions:
        is_any_true |= F.coalesce(condition, F.expr("false"))
    return is_any_true
