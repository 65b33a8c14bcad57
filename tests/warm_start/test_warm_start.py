"""A new checkpoint begins with the sessions of the tables.

No session is started again, heartbeats go on, Ends find their sessions, and no message is read twice.
"""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.spark.checkpoint.folder import ARCHIVE, ROLLUP, SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, read_started_batch
from sessionization.spark.input.topic_offsets import TopicRange
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ChangesSink, SinkContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, SESSIONS
from sessionization.spark.warm_start import initial_state, read_position
from sessionization.spark.warm_start.initial_state import InitialState, warm_start
from tests.support.changes import NOW_MS, a_change
from tests.support.default_streams import STREAMS
from tests.support.settings import settings_of
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for
from tests.support.warehouse import empty_tables
from tests.support.warm_start import archive, warm_context

pytestmark = pytest.mark.spark

DEVICES = [f"d{number}" for number in range(6)]


def run_until(job: Job, beats: int, *names: str) -> None:
    with job.running(*names) as queries:
        wait_for(lambda: job.count(change="heartbeat") >= beats, "heartbeats")
        wait_for(lambda: job.archived() == job.sent, "the archive")
        job.stop(queries)


@pytest.mark.parametrize(("groups", "new_groups"), [(None, 3), pytest.param(3, None, marks=pytest.mark.long)])
def test_live_sessions_continue_under_a_new_checkpoint_with_other_groups(
    spark: SparkSession, tmp_path: Path, groups: int | None, new_groups: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=groups, late_retention="1h")
    starts = [message(1, "Start", device) for device in DEVICES]
    job.send(*starts, message(2, "Start", "over"), message(2, "EndBi", "over"))
    job.sent = 8
    run_until(job, 6, SESSIONIZE, ARCHIVE)  # what the rollup has not merged, the warm start merges
    former = job.settings

    job.change(checkpoints=tmp_path / "other", device_groups=new_groups, from_sessions=True)
    with (
        pytest.raises(ConfigurationError, match=r"holds 1 files whose messages the tables have .*1\.json"),
        job.running(),
    ):
        pass
    job.location.refuse_other_owner(spark, former.state.checkpoints)  # the former checkpoint still owns them
    for file in job.input.glob("*/*.json"):
        file.unlink()
    beats = job.count(change="heartbeat")
    job.send(*starts, message(1, "EndBi", "d0"), message(2, "EndBi", "over"), message(9, "Start", "new"))
    job.sent += 9
    run_until(job, beats + 12)
    unread = tmp_path / "other" / "unread"
    assert (tmp_path / "other" / "seed").exists()
    run_until(job, job.count(change="heartbeat") + 6, SESSIONIZE)  # a restart of the new checkpoint reads no seed
    assert not (tmp_path / "other" / "seed").exists()
    assert spark.read.parquet(str(unread)).isEmpty()
    assert newest_committed_batch(tmp_path / "other" / SESSIONIZE) > 0
    first_position = read_started_batch(tmp_path / "other" / ROLLUP, 0).sources[0]
    assert not first_position["isStartingVersion"], "the rollup goes on, and does not read the whole table again"

    assert Counter(row["device_id"] for row in job.changes(change="started")) == Counter([*DEVICES, "over", "new"])
    assert [(row["device_id"], row["end_reason"]) for row in job.changes(change="ended")] == [
        ("over", "reported"),
        ("d0", "reported"),
    ]
    for device in DEVICES[1:]:
        rows = job.changes(change="heartbeat", device_id=device)
        assert len({row["due_ms"] for row in rows}) == len(rows)
        # A new grid has other instants: one beat number may come twice, or not at all.
        assert abs(sum(row["missed_beats"] + 1 for row in rows) - rows[-1]["beat"]) <= 1
    assert Counter(row["status"] for row in job.rows(SESSIONS)) == {"live": 6, "ended": 2}

    with pytest.raises(CheckpointError, match="written by another checkpoint"):
        job.location.refuse_other_owner(spark, former.state.checkpoints)


def test_a_warm_start_without_tables_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, from_sessions=True)
    with (
        pytest.raises(
            ConfigurationError, match=r"--from-sessions needs the tables of an earlier job: .* lacks session_changes"
        ),
        job.running(),
    ):
        pass


def verify(job: Job) -> str:
    """Compare the job's tables with a backfill. Returns its last line; raises `DifferenceError`."""
    settings = settings_of(
        BackfillSettings,
        warehouse=job.settings.tables.warehouse,
        checkpoints=job.settings.state.checkpoints,
        verify=True,
    )
    lines: list[str] = []
    backfill(settings, lines.append)
    return lines[-1]


@pytest.mark.parametrize(("groups", "new_groups"), [(None, None), pytest.param(None, 2, marks=pytest.mark.long)])
def test_nothing_is_lost_that_waited_or_that_only_archive_had_read(
    spark: SparkSession, tmp_path: Path, groups: int | None, new_groups: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=groups, late_retention="1h")
    job.send(message(1, "Start", "playing"), message(1, "Start", "over"), message(1, "EndBi", "over"))
    job.send(message(1, "EndBi", "waiting"), message(2, "Start", "older"))
    job.sent = 5
    run_until(job, 2, SESSIONIZE, ARCHIVE)
    only_archived = [message(1, "EndBi", "playing"), message(3, "Start", "new"), message(4, "EndBi", "waiting too")]
    job.send(*only_archived, message(1, "EndBi", "over"), message(3, "Start", "older"))
    job.sent = 10
    with job.running(ARCHIVE) as queries:
        wait_for(lambda: job.archived() == job.sent, "the archive")
        job.stop(queries)
    assert job.count(device_id="new") == 0

    for file in job.input.glob("*/*.json"):
        file.unlink()
    job.change(checkpoints=tmp_path / "other", device_groups=new_groups, from_sessions=True)
    with job.running(SESSIONIZE):  # killed: some of it may have been done
        wait_for(lambda: job.count(device_id="new") > 0, "what archive had read")
    job.send(message(1, "Start", "waiting"), message(4, "Start", "waiting too"), message(3, "EndBi", "new"))
    job.sent = 13
    beats = job.count(change="heartbeat")
    run_until(job, beats + 4)
    wait_for(lambda: len(job.rows(SESSIONS)) == 7, "every session")

    shown = {(row["device_id"], row["session_id"]): row["end_reason"] for row in job.rows(SESSIONS)}
    assert shown == {
        ("playing", 1): "reported", ("over", 1): "reported", ("waiting", 1): "reported", ("waiting too", 4): "reported",
        ("new", 3): "reported", ("older", 2): "superseded", ("older", 3): None,
    }  # fmt: skip
    kinds = Counter((row["device_id"], row["session_id"], row["change"]) for row in job.rows(SESSION_CHANGES))
    assert {count for (*_, kind), count in kinds.items() if kind != "heartbeat"} == {1}, "each change once"
    assert verify(job) == "7 sessions, all the same"


ALL = ("starts.json", "unread", "seed", "seed/_SUCCESS")
# For each way to kill a start: the files that it made, the queries that it started, and those that committed.
KILLS = {
    "before anything was made": ((), (), ()),
    "where to begin is written": (("starts.json",), (), ()),
    "half of the sessions are": (("starts.json", "unread", "seed"), (), ()),
    "all is written": (ALL, (), ()),
    "archive has begun": (ALL, (ARCHIVE,), ()),
    "archive and rollup are done": (ALL, (ARCHIVE, ROLLUP), (ARCHIVE, ROLLUP)),
    "sessionize has begun": (ALL, (SESSIONIZE,), ()),
    "sessionize has begun, archive is done": (ALL, (SESSIONIZE, ARCHIVE), (ARCHIVE,)),
    "sessionize is done": (ALL, (SESSIONIZE,), (SESSIONIZE,)),
    "the sessions are being deleted": (("starts.json", "unread", "seed"), (SESSIONIZE,), (SESSIONIZE,)),
}
WHOLE_START = "half of the sessions are"
"""After this kill, the offsets and the sessions come from the tables. Other starts are given them."""


def warm_started(spark: SparkSession, location: TableLocation, folder: Path, *partitions: int) -> InitialState:
    """Start with a topic that has these partitions, and with another topic that was never read."""
    context = warm_context(spark, location, folder, source="kafka", bootstrap_servers="b:9092")
    with pytest.MonkeyPatch.context() as patch:
        topics = {"pc_sessions": dict.fromkeys(partitions, 5), "console_sessions": {0: 3}}
        ends = {"pc_sessions": dict.fromkeys(partitions, 9), "console_sessions": {0: 4}}
        patch.setattr(read_position, "read_topic_range", lambda *_: TopicRange(topics, ends))
        state = warm_start(context)
    context.checkpoint.write()
    return state


@pytest.fixture(scope="module")
def first_start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[TableLocation, Path]:
    """A checkpoint created after offset 7, with the one live session; the tables now contain offset 8."""
    location, folder = TableLocation(tmp_path_factory.mktemp("warehouse")), tmp_path_factory.mktemp("checkpoints")
    empty_tables(spark, location, owner="theirs")
    start = spark.createDataFrame([a_change(device_id="pc-1")], OUTPUT_SCHEMA)
    ChangesSink(SinkContext("sessionize", location, "theirs"))(start, 0)
    archive(spark, location, ("pc_sessions", 0, 7, NOW_MS))
    warm_started(spark, location, folder, 0, 1)
    archive(spark, location, ("pc_sessions", 0, 8, NOW_MS))
    return location, folder


def test_a_file_older_than_the_newest_change_is_refused_if_raw_events_has_no_row_of_a_file(
    spark: SparkSession, tmp_path: Path, first_start: tuple[TableLocation, Path]
) -> None:
    location, _ = first_start
    file = tmp_path / "pc_sessions" / "1.json"
    file.parent.mkdir()
    file.touch()
    read_position.refuse_files_already_read(spark, tmp_path, STREAMS, location)
    os.utime(file, ns=(NOW_MS * 1_000_000,) * 2)
    with pytest.raises(ConfigurationError, match="holds 1 files from before"):
        read_position.refuse_files_already_read(spark, tmp_path, STREAMS, location)


@pytest.mark.parametrize("kill", KILLS)
def test_start_offsets_and_seed_are_made_anew_until_a_query_starts_and_are_fixed_then(
    spark: SparkSession,
    tmp_path: Path,
    first_start: tuple[TableLocation, Path],
    kill: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise messages that `archive` reads before `sessionize` starts would count as read, and be in no session."""
    files, started_queries, committed_queries = KILLS[kill]
    location, folder = first_start
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for name in set(ALL) - set(files):
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for log, queries in (("offsets", started_queries), ("commits", committed_queries)):
        for query in queries:
            (tmp_path / query / log).mkdir(parents=True)
            (tmp_path / query / log / "0").write_text('v1\n{"batchTimestampMs":1}\n-\n')

    if kill != WHOLE_START:
        new = {"pc_sessions": {0: 9, 1: 5, 2: 5}, "console_sessions": {0: 3}}

        def store(_context: JobContext, seed: Path, unread: Path, _first_versions: object) -> None:
            for stored in (seed, unread):
                shutil.copytree(folder / stored.name, stored, dirs_exist_ok=True)

        monkeypatch.setattr(read_position, "next_offsets", lambda _context: new)
        monkeypatch.setattr(initial_state, "merge_recent_changes", lambda _context: 1)
        monkeypatch.setattr(initial_state, "store_remembered_state", store)
    state = warm_started(spark, location, tmp_path, 0, 1, 2)
    if {SESSIONIZE, ARCHIVE} <= set(started_queries):
        assert state.start_offsets is None
    else:
        pc_offsets = {0: 8, 1: 5} if started_queries else {0: 9, 1: 5, 2: 5}
        assert state.start_offsets == {"pc_sessions": pc_offsets, "console_sessions": {0: 3}}
    if SESSIONIZE in committed_queries:
        assert state.sessions is None
        assert not (tmp_path / "seed").exists()
    else:
        assert state.sessions is not None
        assert [row.grouping_key for row in state.sessions.collect()] == ["pc-1"]
