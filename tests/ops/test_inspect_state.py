"""Invariants of the state: a damaged state built by hand breaks each one, and the state of a job breaks none."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from sessionization.core.events import EndReason, Platform
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import (
    Closed,
    Live,
    PendingEnd,
    Rules,
    RulesInForce,
    SessionState,
    next_timer_ms,
)
from sessionization.errors import CheckpointError, ConfigurationError, StateError
from sessionization.ops import inspect_state as inspecting
from sessionization.ops.inspect_state import inspect_state, state_context
from sessionization.ops.invariants import (
    EARLY_ENOUGH,
    ONE_LIVE,
    Invariant,
    StateContext,
    count_violations,
)
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.stored_entries import STATE_SCHEMA, encode_entry
from tests.support.grouping import bucket_of, group_of
from tests.support.settings import settings_of
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=60_000, late_retention_ms=5_000, max_sessions_per_device=3)
CLOCK = 1_800_000_000_000
PARTITIONS = 4
GROUPS = 3
LIVE = Live(CLOCK - 9_000, CLOCK - 8_000, "a", Platform.PC)
CLOSED = Closed(CLOCK - 30_000, CLOCK - 20_000, EndReason.REPORTED, 1, 9, None, Platform.CONSOLE, CLOCK - 2_000, 0)
WAITING = PendingEnd(CLOCK - 40_000, 7, "b", Platform.PC, CLOCK - 3_000, 1)

ENTRIES = StructType(
    [
        StructField("grouping_key", StringType()),
        StructField("partition", IntegerType()),
        StructField("bucket", LongType()),
        StructField("device_id", StringType()),
        StructField("session_id", LongType()),
        *STATE_SCHEMA.fields,
    ]
)
TIMERS = StructType(
    [
        StructField("grouping_key", StringType()),
        StructField("due_at", TimestampType()),
        StructField("partition", IntegerType()),
    ]
)


class State:
    """A correct state, built device by device, which tests then damage."""

    def __init__(self, spark: SparkSession, groups: int | None = None) -> None:
        self.spark, self.groups = spark, groups
        self.context = StateContext(CLOCK, RulesInForce(RULES), StateLayout(groups), PARTITIONS)
        self.entries: list[list] = []
        self.timers: list[list] = []

    def remember(self, device_id: str, **sessions: SessionState) -> None:
        key = device_id if self.groups is None else group_of(self.groups, device_id)
        bucket = None if self.groups is None else bucket_of(self.groups, device_id)[1]
        for name, entry in sessions.items():
            self.entries.append([key, None, bucket, device_id, int(name[1:]), *encode_entry(entry)])
        self.timers.append([key, next_timer_ms(sessions.values(), CLOCK, grid_for_key(key, 1_000), RULES), None])

    def with_partitions(self) -> "State":
        """Give each row the partition in which Spark stores its key."""
        keys = self.spark.createDataFrame([row[:1] for row in self.timers], "key string")
        at = dict(keys.select("key", F.pmod(F.hash("key"), F.lit(PARTITIONS))).collect())
        for row in self.entries:
            row[1] = at[row[0]]
        for row in self.timers:
            row[2] = at[row[0]]
        return self

    def add_devices(self, name: str) -> "DeviceRows":
        """Add three devices with a key each: one with all kinds of entries, one with a live session, one at rest."""
        entries, timers = len(self.entries), len(self.timers)
        self.remember(f"{name}, d1", s1=WAITING, s2=CLOSED, s3=LIVE)
        self.remember(f"{name}, d2", s1=LIVE)
        self.remember(f"{name}, d4", s1=CLOSED)
        return DeviceRows(self.entries[entries:], self.timers[timers:])

    def check(self) -> list[Invariant]:
        timers = [[key, datetime.fromtimestamp(due / 1_000, UTC), at] for key, due, at in self.timers]
        entries = self.spark.createDataFrame(self.entries, ENTRIES)
        return count_violations(entries, self.spark.createDataFrame(timers, TIMERS), self.context)

    def find_violations(self) -> list[Invariant]:
        return [invariant for invariant in self.check() if invariant.broken]


@dataclass
class DeviceRows:
    """The rows of some devices of a state, which a damage changes, adds or removes."""

    entries: list[list]
    timers: list[list]


COLUMN = {name: at for at, name in enumerate(ENTRIES.names)}


def set_entry(row: int, **values: object) -> Callable[[DeviceRows], None]:
    def damage(rows: DeviceRows) -> None:
        for name, value in values.items():
            rows.entries[row][COLUMN[name]] = value

    return damage


def set_timer(row: int, column: int, value: Callable[[object], object]) -> Callable[[DeviceRows], None]:
    def damage(rows: DeviceRows) -> None:
        rows.timers[row][column] = value(rows.timers[row][column])

    return damage


def add_entry(row: int, session_id: int, entry: SessionState) -> Callable[[DeviceRows], None]:
    """Adds one more entry to the device of a row."""

    def damage(rows: DeviceRows) -> None:
        rows.entries.append([*rows.entries[row][: COLUMN["session_id"]], session_id, *encode_entry(entry)])

    return damage


D1_WAITS, D1_CLOSED, D1_LIVE, D2, D4 = range(5)
OVERLAP = "the sessions of a device do not overlap, and a live one is the last"
DAMAGES = {
    "an entry lies under its device's grouping key, in its bucket": set_entry(
        D4, device_id="an entry lies under its device's grouping key, in its bucket, d9"
    ),
    "an entry lies in its grouping key's partition": set_entry(D4, partition=99),
    "no entry is past its deadline": set_entry(D2, opened_ms=CLOCK - 61_000),
    ONE_LIVE: add_entry(D2, 2, LIVE),
    "a device remembers a session once": add_entry(
        D1_CLOSED, 2, replace(CLOSED, ended_ms=CLOCK - 30_000, closing_order=7)
    ),
    OVERLAP: set_entry(D1_CLOSED, ended_ms=CLOCK - 8_999),
    "a device remembers no more than its bound": add_entry(D1_WAITS, 4, replace(WAITING, closing_order=8)),
    "a timer is set where something is remembered": lambda rows: rows.timers.pop(),
    "no timer is overdue": set_timer(1, 1, lambda _: CLOCK),
    "a timer lies in its grouping key's partition": set_timer(1, 2, lambda _: 99),
    EARLY_ENOUGH: set_timer(2, 1, lambda due: due + 1_000),
}
ALSO_BROKEN = {
    "a device remembers a session once": {"a device remembers no more than its bound", OVERLAP},
    ONE_LIVE: {OVERLAP},
}
"""The other invariants that a damage necessarily breaks as well."""


def test_a_correct_state_breaks_no_invariant_and_each_damage_breaks_its_own(spark: SparkSession) -> None:
    state = State(spark)
    rows_by_invariant = {invariant: state.add_devices(invariant) for invariant in DAMAGES}
    state.timers += [[state.timers[0][0], CLOCK + 9_000, None], ["nobody", CLOCK + 1, None]]  # needless, not wrong
    state.with_partitions()
    assert {invariant.name: invariant.broken for invariant in state.check()} == dict.fromkeys(DAMAGES, 0)

    for invariant, damage in DAMAGES.items():
        damage(rows_by_invariant[invariant])
    state.entries = [row for rows in rows_by_invariant.values() for row in rows.entries]
    state.timers = [row for rows in rows_by_invariant.values() for row in rows.timers]
    expected = Counter(DAMAGES.keys())
    for also_broken in ALSO_BROKEN.values():
        expected.update(also_broken)
    found = state.find_violations()
    assert {violation.name: violation.broken for violation in found} == expected
    for violation in found:
        causes = {violation.name} | {name for name, also_broken in ALSO_BROKEN.items() if violation.name in also_broken}
        assert any(name in str(violation.example) for name in causes), violation


def test_a_device_of_a_group_lies_in_its_bucket_or_in_the_recent_one(spark: SparkSession) -> None:
    state = State(spark, GROUPS)
    for number in range(3):
        state.remember(f"d{number}", s1=CLOSED, s2=LIVE)
    state.timers = [
        [key, grid_for_key(key, 1_000).after(CLOCK), None] for key in sorted({row[0] for row in state.timers})
    ]
    state.with_partitions()
    state.entries[0][COLUMN["bucket"]] = -1
    assert state.find_violations() == []
    state.entries[2][COLUMN["bucket"]] = (1 + bucket_of(GROUPS, "d1")[1]) % 64
    assert [str(violation) for violation in state.find_violations()] == [
        "an entry lies under its device's grouping key, in its bucket: 1 times not, as for device d1 session 1"
    ]


def test_timers_of_former_rules_are_accepted_while_they_may_still_exist(spark: SparkSession) -> None:
    state = State(spark)
    set_timer(1, 1, lambda due: due + 300)(state.add_devices(""))
    state.with_partitions()
    former = replace(RULES, late_retention_ms=9_000)
    for ago_ms, expected in ((9_999, []), (10_001, [EARLY_ENOUGH])):
        state.context = replace(state.context, in_force=RulesInForce(RULES, former, CLOCK - ago_ms))
        assert [violation.name for violation in state.find_violations()] == expected


@pytest.mark.long
@pytest.mark.parametrize("device_groups", [None, 2])
def test_the_state_of_a_job_breaks_no_invariant(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    device_groups: int | None,
) -> None:
    job = Job(spark, tmp_path, device_groups=device_groups, late_retention="1h")
    settings = settings_of(InspectSettings, checkpoints=job.settings.state.checkpoints, device="d1")
    with pytest.raises(CheckpointError, match=r"holds no layout\.json"):
        inspect_state(settings, lambda _: None)
    with job.running(SESSIONIZE):
        with pytest.raises(ConfigurationError, match="holds no state"):
            StateReader(spark, tmp_path).at_newest()
        job.send(
            message(1, "Start", "d1"), message(2, "Start", "d2"), message(2, "EndBi", "d2"), message(3, "EndBi", "d3"),
            message(4, "Start", "d2"),
        )  # fmt: skip
        wait_for(lambda: job.count(change="heartbeat") >= 2, "heartbeats")
        lines: list[str] = []
        inspect_state(settings, lines.append)  # while the stream runs
        assert lines[-1] == f"{len(DAMAGES)} invariants hold"
    inspect_state(settings, lines.append)
    assert lines[-1] == f"{len(DAMAGES)} invariants hold"
    assert "|d1       |1         |live" in capsys.readouterr().out

    reader = StateReader(spark, settings.state.checkpoints)
    sums = reader.by_partition().groupBy().sum("devices", "live", "closed", "pending_ends", "timers").first()
    assert sums is not None
    assert tuple(sums)[:4] == (3, 2, 1, 1)
    assert sums[4] >= (1 if device_groups else 3)
    broken_counts = {row.invariant: row.broken for row in inspecting.invariant_frame(reader).collect()}
    assert (len(broken_counts), set(broken_counts.values())) == (len(DAMAGES), {0})
    with_late_clock = lambda *arguments: replace(state_context(*arguments), clock_ms=4_000_000_000_000)  # noqa: E731
    monkeypatch.setattr(inspecting, "state_context", with_late_clock)
    broken_counts = {row.invariant: row.broken for row in inspecting.invariant_frame(reader).collect()}
    assert broken_counts["no entry is past its deadline"] == 4
    with pytest.raises(StateError, match=r"of 11 invariants do not hold \(no entry is past its deadline: 4 times not"):
        inspect_state(settings, lines.append)
