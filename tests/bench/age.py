"""Measure what the age of the tables costs: `python -m tests.bench.age --folder .bench/age --days 1 365`.

With `--ids integer text` also what session ids that are UUIDs cost.

Fills a warehouse for each age with the rows that a job would have left, and measures young and old in turn.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import get_args

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.core.session_state import Rules
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.engine.generated_code import generate_code
from sessionization.spark.engine.session import spark_session
from sessionization.spark.tables import rollup
from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS
from sessionization.spark.tables.views import create_views
from sessionization.spark.warm_start.remembered_state import MemorySpan, recent_changes, stored_entries
from tests.bench.load import session_id
from tests.bench.report import say
from tests.bench.scenario import Ids
from tests.support.warehouse import merge_changes

_SESSION_S = 1_800
_LATE_DAYS = 3
_LATE_SHARE = 50
"""Every fiftieth end is of a session that ended `_LATE_DAYS` days ago."""


@dataclass
class Stand:
    """The tables of a job that ran for `days`: `per_day` sessions of half an hour a day, and `live` ones at the end.

    `ids` is the type of the session ids. `changes` is how many changes a micro-batch of `rollup` has. `now` is that
    end; tables that an earlier run has filled keep theirs.
    """

    spark: SparkSession
    folder: Path
    days: int
    per_day: int
    live: int
    changes: int
    now: datetime
    ids: Ids
    devices: int | None = None
    """How many devices play, each at random; None: each plays four sessions, one after the other."""
    next_id: int = field(init=False)
    next_live: int = field(init=False)

    def __post_init__(self) -> None:
        self.ended = self.days * self.per_day
        self.next_live, self.next_id = self.ended, self.ended + self.live
        if self._filled.exists():
            self.now = datetime.fromisoformat(self._filled.read_text(encoding="utf-8"))

    @property
    def _filled(self) -> Path:
        return self.folder / f"filled-{self.per_day}-{self.live}"

    @property
    def location(self) -> TableLocation:
        return TableLocation(self.folder)

    def fill(self) -> None:
        """Write the tables, unless an earlier run has."""
        if self._filled.exists():
            return
        id_type = StateLayout(has_text_ids=self.ids == "text").session_id_type
        create_tables(self.spark, self.location, owner="bench", session_id_type=id_type)
        began_s = time.monotonic()
        last_day = self._first_started_at((self.now - timedelta(seconds=_SESSION_S)).replace(hour=0, minute=0))
        first_day_after = last_day - (self.days - 1) * self.per_day
        folded = (
            self._sessions(0, first_day_after)
            .unionAll(self._sessions(first_day_after, last_day, tasks=self.days - 1))
            .unionAll(self._sessions(last_day, self.ended))
            .unionAll(self._sessions(self.ended, self.ended + self.live, is_live=True))
        )
        self.location.append(rollup.to_session_rows(folded), SESSIONS)
        say(f"{self.folder}: {self.ended + self.live:,} sessions in {time.monotonic() - began_s:.0f} s")
        self._filled.write_text(self.now.isoformat(), encoding="utf-8")

    def _started_at(self, number: Column) -> Column:
        """The start of a session: the newest ended one ended just before `now`, live ones began within an hour."""
        before_s = (F.lit(self.ended) - number) * (86_400 / self.per_day) + _SESSION_S
        in_live_s = F.pmod(number, F.lit(3_600))
        ago_s = F.when(number < self.ended, before_s).otherwise(in_live_s)
        return F.timestamp_millis(F.round(F.lit(self.now.timestamp()) * 1_000 - ago_s * 1_000).cast("bigint"))

    def _first_started_at(self, instant: datetime) -> int:
        """The first ended session that did not start before an instant."""
        ago_s = (self.now - instant).total_seconds() - _SESSION_S
        return self.ended - math.floor(ago_s * self.per_day / 86_400)

    def _sessions(self, first: int, after: int, *, tasks: int = 1, is_live: bool = False) -> DataFrame:
        """Rows of `rollup.fold_by_session`, in order of their starts. A task writes a file for each day of its rows."""
        number = F.col("id")
        rows = self.spark.range(first, after, numPartitions=max(1, tasks)).select(
            self._device(number).alias("device_id"),
            session_id(self._device(number), number, self.ids).alias("session_id"),
            self._started_at(number).alias("started_at"),
        )
        account = F.concat(F.lit("account-"), F.substring("device_id", 8, 12))
        ended_at = F.col("started_at") + F.make_dt_interval(secs=F.lit(_SESSION_S))
        start = F.struct("started_at", account.alias("account_id"), F.lit("pc").alias("platform"))
        end = F.struct(
            F.lit(2).alias("rank"), F.lit(0).alias("revision"), ended_at.alias("ended_at"),
            F.lit(900).cast("bigint").alias("foreground_s"), account.alias("account_id"),
            F.lit("reported").alias("end_reason"), F.lit("pc").alias("platform"),
        )  # fmt: skip
        return rows.select(
            "device_id",
            "session_id",
            "started_at",
            start.alias("_first_start"),
            (F.lit(None).cast(_type_of("_shown_end")) if is_live else end).alias("_shown_end"),
            (F.col("started_at") if is_live else ended_at).alias("updated_at"),
        )

    def micro_batch(self) -> DataFrame:
        """The changes of one micro-batch: half are Starts, half are ends; few of them are of an older session."""
        half = self.changes // 2
        new = self.spark.range(self.next_id, self.next_id + half).select("id", F.lit("started").alias("change"))
        over = self.spark.range(self.next_live, self.next_live + half).select("id", F.lit("ended").alias("change"))
        older = F.when(
            F.pmod("id", F.lit(_LATE_SHARE)) == 0,
            F.greatest(F.lit(0), F.lit(self.ended - _LATE_DAYS * self.per_day) - F.col("id") % 1_000),
        ).otherwise(F.col("id"))
        over = over.select(older.alias("id"), "change")
        self.next_id, self.next_live = self.next_id + half, self.next_live + half
        return self.changes_of(new.unionAll(over))

    def changes_of(self, rows: DataFrame) -> DataFrame:
        """Starts and ends of sessions, from their numbers (`id`) and the kind of change."""
        is_end = F.col("change") == "ended"
        started_at = self._started_at(F.col("id"))
        return rows.select(
            self._device(F.col("id")).alias("device_id"),
            session_id(self._device(F.col("id")), F.col("id"), self.ids).alias("session_id"),
            F.concat(F.lit("account-"), F.substring(self._device(F.col("id")), 8, 12)).alias("account_id"),
            F.lit("pc").alias("platform"),
            "change",
            F.when(is_end, "reported").alias("end_reason"),
            F.when(is_end & (F.col("id") < self.ended), 1).otherwise(0).alias("revision"),
            started_at.alias("started_at"),
            F.when(is_end, started_at + F.make_dt_interval(secs=F.lit(_SESSION_S))).alias("ended_at"),
            F.when(is_end, F.lit(900).cast("bigint")).alias("foreground_s"),
            F.lit(self.now).alias("processed_at"),
        )

    def merge(self) -> None:
        """What a micro-batch of `rollup` does to `sessions`."""
        batch = self.micro_batch().persist()
        batch.count()
        merge_changes(self.spark, self.location, batch)
        batch.unpersist()

    def _device(self, number: Column) -> Column:
        device = F.floor(number / 4) if self.devices is None else F.pmod(F.hash(number), self.devices)
        return F.concat(F.lit("device-"), F.substring(F.md5(device.cast("string")), 1, 24))

    def seed(self) -> None:
        """The entries of the state that a warm start begins with."""
        span = MemorySpan(int(self.now.timestamp() * 1_000), Rules())
        recent = recent_changes(self.location.read(self.spark.read, SESSION_CHANGES), span)
        stored_entries(self.location.read(self.spark.read, SESSIONS), recent).count()

    def query(self, sql: str) -> None:
        """A question of a user, to the views of this stand."""
        device = md5(str(self.ended // 4 - 1).encode(), usedforsecurity=False).hexdigest()[:24]
        now = f"TIMESTAMP '{self.now:%Y-%m-%d %H:%M:%S}'"
        assert self.spark.sql(sql.format(now=now, device=f"'device-{device}'")).collect()


def _type_of(column: str) -> str:
    return next(each.type for each in SESSIONS.columns if each.name == column)


QUESTIONS = {
    "the view live_sessions": "SELECT count(*), max(heartbeat_age_ms) FROM live_sessions",
    "one device in the last week": (
        "SELECT * FROM sessions WHERE device_id = {device} AND started_at >= {now} - INTERVAL 7 DAYS"
    ),
    "one device, ever": "SELECT * FROM sessions WHERE device_id = {device}",
}
MEASURED: dict[str, Callable[[Stand], None]] = {
    "a MERGE": Stand.merge,
    "the seed of a warm start": Stand.seed,
} | {f"question: {name}": partial(Stand.query, sql=sql) for name, sql in QUESTIONS.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.age", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".bench/age"))
    parser.add_argument("--days", type=int, nargs="+", default=[1, 30, 365])
    parser.add_argument("--per-day", type=int, default=274_000)
    parser.add_argument("--live", type=int, default=100_000)
    parser.add_argument("--changes", type=int, default=2_000, help="changes in a MERGE")
    parser.add_argument("--ids", choices=get_args(Ids), nargs="+", default=["integer"], help="types of session ids")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="measure only what has this text in its name")
    options = parser.parse_args()
    spark = spark_session(options.folder / "engine.log")
    generate_code(spark)
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    stands = [
        Stand(
            spark, options.folder / f"{days}-days-{ids}", days, options.per_day, options.live, options.changes, now, ids
        )
        for days in options.days
        for ids in options.ids
    ]
    for stand in stands:
        stand.fill()
    for name, measured in MEASURED.items():
        if options.only in name:
            measure(name, measured, stands, options.repeats)
    return 0


def measure(name: str, measured: Callable[[Stand], None], stands: list[Stand], repeats: int) -> None:
    """Print the median seconds in young and old tables in turn, and its ratio to that in the youngest."""
    took_s: list[list[float]] = [[] for _ in stands]
    for repeat in range(repeats + 1):
        for stand, times in zip(stands, took_s, strict=True):
            create_views(stand.spark, stand.location)  # the stands share one Spark session, and their views the names
            began_s = time.monotonic()
            measured(stand)
            if repeat:  # the first one warms up
                times.append(time.monotonic() - began_s)
    medians = [statistics.median(times) for times in took_s]
    for stand, times, median in zip(stands, took_s, medians, strict=True):
        seconds = f"{median:.2f} s ({min(times):.2f} to {max(times):.2f})"
        say(f"{name}: {stand.days} days, {stand.ids} ids: {seconds}, ratio {median / medians[0]:.2f}")


if __name__ == "__main__":
    sys.exit(main())
