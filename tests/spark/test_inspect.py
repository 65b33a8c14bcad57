"""Invariants of the state: each is broken by a state built by hand, and none by what a job leaves."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from zlib import crc32

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from sessionization.core.events import EndReason, Platform
from sessionization.core.heartbeat_grid import grid_of
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
    ONE_LIVE,
    ONE_TIMER,
    RIGHT_INSTANT,
    StateContext,
    Violation,
    find_violations,
    invariant_names,
)
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.ops.state_reader import StateReader
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.codec import STATE_SCHEMA, encode_entry
from tests.spark.test_stream import Job, message, wait_for

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
    """A state that is right, by device, and can be spoilt."""

    def __init__(self, spark: SparkSession, groups: int | None = None) -> None:
        self.spark, self.groups = spark, groups
        self.context = StateContext(CLOCK, RulesInForce(RULES), StateLayout(groups), PARTITIONS)
        self.entries: list[list] = []
        self.timers: list[list] = []

    def remember(self, device_id: str, **sessions: SessionState) -> None:
        key = device_id if self.groups is None else str(crc32(device_id.encode()) % self.groups)
        bucket = None if self.groups is None else crc32(device_id.encode()) // self.groups % 64
        for name, entry in sessions.items():
            self.entries.append([key, None, bucket, device_id, int(name[1:]), *encode_entry(entry)])
        self.timers.append([key, next_timer_ms(sessions.values(), CLOCK, grid_of(key, 1_000), RULES), None])

    def laid(self) -> "State":
        """Put everything into the partition that Spark keeps its key in."""
        keys = self.spark.createDataFrame([row[:1] for row in self.timers], "key string")
        at = dict(keys.select("key", F.pmod(F.hash("key"), F.lit(PARTITIONS))).collect())
        for row in self.entries:
            row[1] = at[row[0]]
        for row in self.timers:
            row[2] = at[row[0]]
        return self

    def whole(self, name: str) -> "Part":
        """Three devices of as many keys: one with all kinds of entries, one whose session is live, one at rest."""
        entries, timers = len(self.entries), len(self.timers)
        self.remember(f"{name}, d1", s1=WAITING, s2=CLOSED, s3=LIVE)
        self.remember(f"{name}, d2", s1=LIVE)
        self.remember(f"{name}, d4", s1=CLOSED)
        return Part(self.entries[entries:], self.timers[timers:])

    def find_violations(self) -> list[Violation]:
        timers = [[key, datetime.fromtimestamp(due / 1_000, UTC), at] for key, due, at in self.timers]
        entries = self.spark.createDataFrame(self.entries, ENTRIES)
        return find_violations(entries, self.spark.createDataFrame(timers, TIMERS), self.context)


@dataclass
class Part:
    """The rows of some devices within a state; what is put or left out here is so there."""

    entries: list[list]
    timers: list[list]


COLUMN = {name: at for at, name in enumerate(ENTRIES.names)}


def put(row: int, **values: object) -> Callable[[Part], None]:
    def spoil(part: Part) -> None:
        for name, value in values.items():
            part.entries[row][COLUMN[name]] = value

    return spoil


def put_timer(row: int, at: int, value: Callable[[object], object]) -> Callable[[Part], None]:
    def spoil(part: Part) -> None:
        part.timers[row][at] = value(part.timers[row][at])

    return spoil


def also(row: int, session_id: int, entry: SessionState) -> Callable[[Part], None]:
    """One more entry of the device of a row."""

    def spoil(part: Part) -> None:
        part.entries.append([*part.entries[row][: COLUMN["session_id"]], session_id, *encode_entry(entry)])

    return spoil


D1_WAITS, D1_CLOSED, D1_LIVE, D2, D4 = range(5)
SPOILT = {
    "an entry is live, closed or a pending end": put(D1_WAITS, status="asleep"),
    "an entry has all that its status needs and no more": put(D2, foreground_s=5),
    "an entry says what this version knows": put(D4, end_reason="orphaned"),
    "no session ends before it starts": put(D4, ended_ms=CLOCK - 30_001),
    "no entry is from after its micro-batch": put(D2, opened_ms=CLOCK + 1),
    "no entry is past its deadline": put(D2, opened_ms=CLOCK - 61_000),
    "an entry lies under its device's grouping key, in its bucket": put(
        D4, device_id="an entry lies under its device's grouping key, in its bucket, d9"
    ),
    "an entry lies in its grouping key's partition": put(D4, partition=99),
    ONE_LIVE: also(D2, 2, LIVE),
    "a device remembers a session once": also(D1_CLOSED, 2, replace(CLOSED, ended_ms=CLOCK - 30_000, place=7)),
    "no two entries of a device have the same place": put(D1_CLOSED, place=1),
    "a device remembers no more than its bound": also(D1_WAITS, 4, replace(WAITING, place=8)),
    "a live session is its device's last": put(D1_CLOSED, started_ms=CLOCK - 5_000, ended_ms=CLOCK - 4_000),
    "the sessions of a device do not overlap": put(D1_CLOSED, ended_ms=CLOCK - 8_999),
    "a timer is set where something is remembered": lambda part: part.timers.pop(),
    "no timer is set where nothing is remembered": lambda part: part.entries.pop(),
    "no timer is overdue": put_timer(1, 1, lambda _: CLOCK),
    "a timer lies in its grouping key's partition": put_timer(1, 2, lambda _: 99),
    ONE_TIMER: lambda part: part.timers.append([part.timers[1][0], part.timers[1][1] + 1_000, part.timers[1][2]]),
    RIGHT_INSTANT: put_timer(2, 1, lambda due: due + 1_000),
}
ENTAILED = {
    "no timer is overdue": {RIGHT_INSTANT},
    "a device remembers a session once": {
        "a device remembers no more than its bound",
        "the sessions of a device do not overlap",
    },
    ONE_LIVE: {"a live session is its device's last"},
}
"""What a spoilt device breaks beside, and cannot help to."""


def test_a_state_that_is_right_breaks_nothing_and_every_invariant_is_broken_by_one(spark: SparkSession) -> None:
    state = State(spark)
    parts = {invariant: state.whole(invariant) for invariant in SPOILT}
    state.laid()
    assert state.find_violations() == []
    assert set(invariant_names(state.context)) == SPOILT.keys()

    for invariant, spoil in SPOILT.items():
        spoil(parts[invariant])
    state.entries = [row for part in parts.values() for row in part.entries]
    state.timers = [row for part in parts.values() for row in part.timers]
    expected = Counter(SPOILT.keys())
    for entailed in ENTAILED.values():
        expected.update(entailed)
    found = state.find_violations()
    assert {told.invariant: told.count for told in found} == expected
    for told in found:
        by = {told.invariant} | {invariant for invariant, entailed in ENTAILED.items() if told.invariant in entailed}
        assert any(invariant in told.example for invariant in by), told


def test_a_group_has_its_devices_in_their_buckets_or_among_the_recent(spark: SparkSession) -> None:
    state = State(spark, GROUPS)
    for number in range(3):
        state.remember(f"d{number}", s1=CLOSED, s2=LIVE)
    state.timers = [[key, grid_of(key, 1_000).after(CLOCK), None] for key in sorted({row[0] for row in state.timers})]
    state.laid()
    state.entries[0][COLUMN["bucket"]] = -1
    assert state.find_violations() == []
    state.entries[2][COLUMN["bucket"]] = (1 + crc32(b"d1") // GROUPS) % 64
    assert [str(told) for told in state.find_violations()] == [
        "an entry lies under its device's grouping key, in its bucket: 1 times not, as for device d1 session 1"
    ]


def test_timers_of_former_rules_are_borne_as_long_as_they_may_be_left(spark: SparkSession) -> None:
    state = State(spark)
    put_timer(1, 1, lambda due: due + 300)(state.whole(""))
    state.laid()
    former = replace(RULES, late_retention_ms=9_000)
    for ago_ms, told in ((9_999, []), (10_001, [RIGHT_INSTANT])):
        state.context = replace(state.context, in_force=RulesInForce(RULES, former, CLOCK - ago_ms))
        assert [found.invariant for found in state.find_violations()] == told


@pytest.mark.parametrize("device_groups", [pytest.param(None, marks=pytest.mark.long), 2])
def test_what_a_job_leaves_breaks_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device_groups: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=device_groups, late_retention="1h")
    settings = InspectSettings(checkpoints=job.settings.checkpoints, device="d1")
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
        said: list[str] = []
        inspect_state(settings, said.append)  # beside the stream
        assert said[-1] == f"{len(SPOILT)} invariants hold"
    said.clear()
    inspect_state(settings, said.append)
    assert said[-1] == f"{len(SPOILT)} invariants hold"
    devices, live, closed, pending_ends, timers = map(int, said[1].splitlines()[-1].split()[1:])
    assert (devices, live, closed, pending_ends) == (3, 2, 1, 1)
    assert timers in ({1, 2} if device_groups else {3})
    assert said[-2].splitlines()[1].split()[:3] == ["d1", "1", "live"]

    reader = StateReader(spark, settings.checkpoints)
    shown = {row.invariant: row.broken for row in inspecting.invariant_frame(reader).collect()}
    assert (len(shown), set(shown.values())) == (len(SPOILT), {0})
    earlier = lambda *found: replace(state_context(*found), clock_ms=0)  # noqa: E731
    monkeypatch.setattr(inspecting, "state_context", earlier)
    shown = {row.invariant: row.broken for row in inspecting.invariant_frame(reader).collect()}
    assert shown["no entry is from after its micro-batch"] == 4
    with pytest.raises(
        StateError, match=r"of 20 invariants do not hold \(no entry is from after its micro-batch: 4 times not"
    ):
        inspect_state(settings, said.append)
