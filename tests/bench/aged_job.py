"""Measure what the age of the tables costs a job: `python -m tests.bench.aged_job --folder .bench/age --days 4 365`.

Adds rows of the other tables to the warehouses of `tests.bench.age`. In young and old tables in turn it measures a warm
start and a restart up to the first heartbeat, the micro-batches of each query, a stop, a restart whose logs have the
names of all input files, `maintain`, and then the queries of the dashboard.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, STREAM_PROGRESS, Table
from tests.bench.age import Stand, filled_stands, measure, stand_parser
from tests.bench.jobs import run_timed, say
from tests.bench.scenario import LONG_LIVED, LONG_LIVED_JAVA_OPTIONS
from tests.support.dashboards import dataset_sql
from tests.support.job import ROOT, SIMULATE, Job, command, environment

CHANGE_DAYS, HEARTBEAT_DAYS, MESSAGE_DAYS = 401, 8, 31
"""A day more than `maintain` retains: it deletes the oldest day, as it does every night."""
_CHANGES_SHARE, _MESSAGES_SHARE = 20, 20
"""Every twentieth session has rows in `session_changes` and `raw_events`, so that they fit on a disk of ten GB."""
_HEARTBEATS_PER_DAY = 300_000
_PROGRESS_PER_DAY = 3_000
_GROUPS = 64
_FILES_PER_DAY = 17_280  # one every ten seconds for each of two streams
_MOST_FILES = 1_000_000
_RUN_S = 60
_COMPACTS_EARLY = {"spark.sql.streaming.fileSource.log.compactInterval": "3"}
"""So that the logs of files have a compacted file after a minute; Spark's default is every tenth micro-batch."""
_LOAD = ("--rate=50", "--live=200", f"--duration={_RUN_S}s")
_FIRST_BEAT_S = 600

_DASHBOARD = ROOT / "bundles" / "session_overview.lvdash.json"

Times = dict[str, list[float]]


def fill_history(stand: Stand) -> None:
    """Write rows of the other tables, unless an earlier run has."""
    done = stand.folder / "history"
    if done.exists():
        return
    began_s = time.monotonic()
    for table, rows in _history(stand):
        _append(stand.location, table, rows)
    say(f"{stand.folder}: the other tables in {time.monotonic() - began_s:.0f} s")
    done.touch()


def _history(stand: Stand) -> Iterator[tuple[Table, DataFrame]]:
    days = min(stand.days, CHANGE_DAYS)
    sessions = stand.sessions_of_days(days).where(F.col("session_id") % _CHANGES_SHARE == 0)
    for change, at in (("started", F.col("started_at")), ("ended", F.col("_shown_end.ended_at"))):
        is_end = change == "ended"
        yield (
            SESSION_CHANGES,
            sessions.select(
                *("device_id", "session_id", "started_at", "_first_start.account_id", "_first_start.platform"),
                *(
                    F.lit(change).alias("change"),
                    F.lit(0).alias("revision"),
                    F.lit(0).cast("bigint").alias("duration_ms"),
                ),
                *((F.lit("reported").alias("end_reason"), at.alias("ended_at")) if is_end else ()),
                *(
                    at.alias("event_at"),
                    at.alias("ingested_at"),
                    at.alias("processed_at"),
                    _day(at).alias("change_date"),
                ),
            ),
        )
    heartbeat_days = min(stand.days, HEARTBEAT_DAYS)
    at = _spread(stand.now, heartbeat_days, _HEARTBEATS_PER_DAY)
    yield (
        SESSION_CHANGES,
        stand.spark.range(heartbeat_days * _HEARTBEATS_PER_DAY).select(
            F.concat(F.lit("device-"), F.md5(F.col("id").cast("string"))).alias("device_id"),
            F.col("id").alias("session_id"),
            *(F.lit("pc").alias("platform"), F.lit("heartbeat").alias("change"), F.lit(0).alias("revision")),
            *(
                F.lit(1).alias("beat"),
                F.lit(0).alias("missed_beats"),
                F.lit(30_000).cast("bigint").alias("duration_ms"),
            ),
            *(at.alias("due_at"), at.alias("started_at"), at.alias("processed_at"), _day(at).alias("change_date")),
        ),
    )
    messages = stand.sessions_of_days(min(stand.days, MESSAGE_DAYS)).where(F.col("session_id") % _MESSAGES_SHARE == 0)
    at = F.col("started_at")
    text = F.concat_ws('","', "device_id", F.col("session_id").cast("string"), at.cast("string"))
    yield (
        RAW_EVENTS,
        messages.select(
            F.lit("pc_sessions").alias("stream"),
            F.concat(F.lit("file:///input/pc_sessions/"), F.date_format(at, "yyyyMMddHHmm"), F.lit(".json")).alias(
                "file"
            ),
            *(at.alias("ingested_at"), text.cast("binary").alias("value"), _day(at).alias("ingest_date")),
        ),
    )
    yield (
        STREAM_PROGRESS,
        stand.spark.range(days * _PROGRESS_PER_DAY).select(
            F.element_at(
                F.array(*map(F.lit, ("sessionize", "archive", "rollup"))), (F.col("id") % 3 + 1).cast("int")
            ).alias("query"),
            *(F.col("id").alias("batch_id"), _spread(stand.now, days, _PROGRESS_PER_DAY).alias("processed_at")),
            *(F.lit(1).cast("bigint").alias("rows_in"), F.lit(1_000).cast("bigint").alias("batch_ms")),
        ),
    )


def _append(location: TableLocation, table: Table, rows: DataFrame) -> None:
    """Append rows, with null in the columns that they lack; a day's rows go into one file."""
    complete = [
        (F.col(column.name) if column.name in rows.columns else F.lit(None)).cast(column.type).alias(column.name)
        for column in table.columns
    ]
    day = table.day_column
    location.append(rows.select(*complete) if day is None else rows.select(*complete).repartition(32, day), table)


def _day(at: Column) -> Column:
    return F.to_date(F.to_utc_timestamp(at, F.current_timezone()))


def _spread(until: datetime, days: int, per_day: int) -> Column:
    """Instants spread evenly over the days before `until`, by the column `id`."""
    ago_s = F.col("id") * (86_400 / per_day) % (days * 86_400)
    return F.timestamp_millis(((F.lit(until.timestamp()) - ago_s) * 1_000).cast("bigint"))


def measure_job(stand: Stand, times: Times) -> None:
    """Start a job with a new checkpoint on the stand's tables, stop it, and start and stop it again."""
    folder = stand.folder / "job"
    shutil.rmtree(folder, ignore_errors=True)
    job = Job(folder, f"--device-groups={_GROUPS}", "--session-timeout=7d")
    job.warehouse, job.conf = stand.folder, LONG_LIVED | _COMPACTS_EARLY
    with job:
        job.more = ("--from-sessions",)
        times["warm start to the first heartbeat"].append(_start(job))
        times["stop after a warm start"].append(_stop(job))
        job.more = ()
        times["restart to the first heartbeat"].append(_start(job))
        began = datetime.now(UTC)
        _send(job)
        times["stop"].append(_stop(job))
        names = min(_MOST_FILES, stand.days * _FILES_PER_DAY)
        for query in ("sessionize", "archive"):
            _add_deleted_files(job.checkpoints / query, names)
        times[f"restart with the names of at most {_MOST_FILES:,} deleted files"].append(_start(job))
        times["stop after it"].append(_stop(job))
    for query, batch_ms in _batches(stand, began):
        times[f"micro-batch of {query}"].append(batch_ms / 1_000)


def _start(job: Job) -> float:
    """Seconds from the start to the first commit of heartbeats."""
    log = job.warehouse / "session_changes" / "_delta_log"
    seen = {path.name for path in log.glob("*.json")}

    def has_beaten() -> bool:
        new = [path for path in log.glob("*.json") if path.name not in seen]
        seen.update(path.name for path in new)
        return any("change=heartbeat" in path.read_text(encoding="utf-8") for path in new)

    began_s = time.monotonic()
    job.start()
    job.wait_until(has_beaten, "a heartbeat", poll_s=0.2, within_s=_FIRST_BEAT_S)
    return time.monotonic() - began_s


def _stop(job: Job) -> float:
    began_s = time.monotonic()
    code = job.terminate()
    assert code == 0, job.output_lines()[-3:]
    return time.monotonic() - began_s


def _add_deleted_files(query: Path, count: int) -> None:
    """Add the names of files to the log of a stopped query's file source, as if it had taken them days ago."""
    newest = max(query.glob("sources/*/*.compact"), key=lambda file: int(file.stem))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    parent = json.loads(newest.read_text(encoding="utf-8").splitlines()[1])["path"].rpartition("/")[0]
    with newest.open("a", encoding="utf-8") as log:
        for number in range(count):
            name = f"{parent}/{number:012}.json"
            log.write("\n" + json.dumps({"path": name, "timestamp": number, "batchId": 0}, separators=(",", ":")))


def _send(job: Job) -> None:
    """Play messages to the job in real time."""
    words = command(f"--output={job.input}", *_LOAD, entry=(SIMULATE,))
    subprocess.run(words, env=environment(), stderr=subprocess.DEVNULL, check=True)


def _batches(stand: Stand, since: datetime) -> Iterator[tuple[str, float]]:
    """Each query, and the median duration of its micro-batches with rows, in milliseconds."""
    progress = stand.location.read(stand.spark.read, STREAM_PROGRESS)
    rows = progress.where((F.col("processed_at") >= F.lit(since)) & (F.col("rows_in") > 0))
    for row in rows.groupBy("query").agg(F.median("batch_ms").alias("batch_ms")).collect():
        yield row.query, row.batch_ms


def _ask(stand: Stand, sql: str) -> None:
    stand.spark.sql(sql).collect()


def main() -> int:
    options = stand_parser("python -m tests.bench.aged_job", __doc__).parse_args()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    stands = filled_stands(options)
    for stand in stands:
        fill_history(stand)
    measured: list[Times] = [defaultdict(list) for _ in stands]
    for _ in range(options.repeats):
        for stand, times in zip(stands, measured, strict=True):
            measure_job(stand, times)
    for stand, times in zip(stands, measured, strict=True):
        began_s = time.monotonic()
        run_timed("maintain", f"--warehouse={stand.folder}", f"--checkpoints={stand.folder / 'job' / 'checkpoints'}")
        times["maintain"].append(time.monotonic() - began_s)
    for name, young in measured[0].items():
        for stand, times in zip(stands, measured, strict=True):
            median = statistics.median(times[name])
            each = ", ".join(f"{seconds:.1f}" for seconds in times[name])
            say(f"{name}: {stand.days} days: {median:.1f} s ({each}), ratio {median / statistics.median(young):.2f}")
    for dataset in json.loads(_DASHBOARD.read_text(encoding="utf-8"))["datasets"]:
        measure(f"dashboard: {dataset['name']}", partial(_ask, sql=dataset_sql(dataset)), stands, options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
