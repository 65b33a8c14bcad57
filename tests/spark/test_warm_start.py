"""A new checkpoint that begins with the tables' sessions: none is started again, beats go on, Ends are known, no message is doubled."""

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import ARCHIVE, ROLLUP, SESSIONIZE, open_checkpoint, read_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch
from sessionization.spark.input import source
from sessionization.spark.input.topic_offsets import EARLIEST, TopicRange
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.codec import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ChangesSink, StateSize
from sessionization.spark.tables.creation import create_tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSIONS
from sessionization.spark.warm_start import read_position
from sessionization.spark.warm_start.initial_state import InitialState, warm_start
from tests.spark.test_stream import Job, message, wait_for
from tests.spark.test_tables import NOW_MS, a_change
from tests.spark.warehouse import empty_tables

DEVICES = [f"d{number}" for number in range(6)]


def stopped_at(job: Job, beats: int) -> None:
    with job.running() as queries:
        wait_for(lambda: job.count(change="heartbeat") >= beats, "heartbeats")
        wait_for(lambda: job.archived() == job.sent, "the archive")
        job.stop(queries)


@pytest.mark.parametrize(("groups", "then"), [(None, 3), pytest.param(3, None, marks=pytest.mark.long)])
def test_live_sessions_outlive_their_checkpoint_and_its_groups(
    spark: SparkSession, tmp_path: Path, groups: int | None, then: int | None
) -> None:
    job = Job(spark, tmp_path, device_groups=groups, late_retention="1h")
    starts = [message(1, "Start", device) for device in DEVICES]
    job.send(*starts, message(2, "Start", "over"), message(2, "EndBi", "over"))
    job.sent = 8
    stopped_at(job, 6)
    former = job.settings

    job.change(checkpoints=tmp_path / "other", device_groups=then, from_sessions=True)
    with (
        pytest.raises(ConfigurationError, match=r"holds 1 files whose messages the tables have .*1\.json"),
        job.running(),
    ):
        pass
    create_tables(
        spark, job.location, owner=read_checkpoint(former.checkpoints).id, may_create=False
    )  # they are still whose they were
    for file in job.input.glob("*/*.json"):
        file.unlink()
    beats = job.count(change="heartbeat")
    job.send(*starts, message(1, "EndBi", "d0"), message(2, "EndBi", "over"), message(9, "Start", "new"))
    job.sent += 9
    stopped_at(job, beats + 12)
    assert (tmp_path / "other" / "seed").exists()
    stopped_at(job, beats + 18)  # a restart of the new checkpoint takes no seed again
    assert not (tmp_path / "other" / "seed").exists()
    assert newest_committed_batch(tmp_path / "other" / SESSIONIZE) > 0

    assert Counter(row["device_id"] for row in job.changes(change="started")) == Counter([*DEVICES, "over", "new"])
    assert [(row["device_id"], row["end_reason"]) for row in job.changes(change="ended")] == [
        ("over", "reported"),
        ("d0", "reported"),
    ]
    for device in DEVICES[1:]:
        rows = job.changes(change="heartbeat", device_id=device)
        assert len({row["due_ms"] for row in rows}) == len(rows)
        # A new grid has other instants: the number of one of them may come once more, or not at all.
        assert abs(sum(row["missed_beats"] + 1 for row in rows) - rows[-1]["beat"]) <= 1
    assert Counter(row["status"] for row in job.rows(SESSIONS)) == {"live": 6, "ended": 2}

    job.settings = former
    with pytest.raises(CheckpointError, match="written by another checkpoint"), job.running():
        pass


def test_without_tables_there_is_nothing_to_take_over(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path, from_sessions=True)
    with (
        pytest.raises(
            ConfigurationError, match=r"--from-sessions needs the tables of a job before: .* lacks session_changes"
        ),
        job.running(),
    ):
        pass


ODD_NAMES = (
    "plain.json", "events (1).json", "a b.json", "a+b.json", "a%20c.json", "100%.json", "%zz.json", "a&b=c,d@e!f'g.json",
    "k~l$m*n;o.json", "a#b?c.json", "[x]{y}^z`|.json", "ünï-çödé.json", "日本 語.json", 'quoted".json',
)  # fmt: skip

NO_INPUT = (".hidden.json", "_hidden.json", "a.txt", "folder.json/a.json", "date=2026-11-21/a.json")


@pytest.fixture(scope="module")
def read_files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TableLocation]:
    """A folder of files that the engine has read into `raw_events`."""
    folder = tmp_path_factory.mktemp("in put (1) ü+%")
    (folder / "pc_sessions").mkdir()
    for name in ODD_NAMES:
        (folder / "pc_sessions" / name).write_text(json.dumps(message(1, "Start")) + "\n")
    for name in NO_INPUT:
        (folder / "pc_sessions" / name).parent.mkdir(exist_ok=True)
        (folder / "pc_sessions" / name).write_text(json.dumps(message(1, "Start")) + "\n")
    location = TableLocation(folder / "warehouse")
    empty_tables(spark, location, owner="ours")
    rows = source.file_messages(spark, folder)
    append = rows.writeStream.foreachBatch(lambda batch, _: location.append(batch, RAW_EVENTS))
    query = append.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    return folder, location


def test_what_an_input_file_is_says_the_engine(spark: SparkSession, read_files: tuple[Path, TableLocation]) -> None:
    folder, location = read_files
    assert {file.name for file in source.input_files(folder)} == set(ODD_NAMES)
    assert location.read(spark.read, RAW_EVENTS).select("file").distinct().count() == len(ODD_NAMES)


@contextmanager
def in_place_of_all_others(folder: Path, name: str) -> Iterator[Path]:
    """Let the folder hold one file alone for a while: its own of that name, or an empty one."""
    files, aside = folder / "pc_sessions", folder / "aside"
    files.rename(aside)
    files.mkdir()
    try:
        if (aside / name).exists():
            (files / name).hardlink_to(aside / name)
        else:
            (files / name).touch()
        yield files / name
    finally:
        (files / name).unlink()
        files.rmdir()
        aside.rename(files)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_file_that_was_read_is_known_whatever_its_name(
    spark: SparkSession, read_files: tuple[Path, TableLocation], name: str
) -> None:
    folder, location = read_files
    with in_place_of_all_others(folder, name) as file:
        for given in (folder, folder / "warehouse" / ".."):
            with pytest.raises(ConfigurationError) as told:
                read_position.refuse_files_already_read(spark, given, location)
            assert f"holds 1 files whose messages the tables have ({file}): move them away" in str(told.value)


def test_files_that_were_read_are_known_where_their_folder_was_moved(
    spark: SparkSession, read_files: tuple[Path, TableLocation], tmp_path: Path
) -> None:
    """As with a disk that another machine mounts, or a folder that was copied: there the files have other times, too."""
    folder, location = read_files
    copy = tmp_path / "copied" / "pc_sessions" / ODD_NAMES[0]
    copy.parent.mkdir(parents=True)
    copy.write_bytes((folder / "pc_sessions" / ODD_NAMES[0]).read_bytes())
    with pytest.raises(ConfigurationError, match="holds 1 files whose messages the tables have"):
        read_position.refuse_files_already_read(spark, tmp_path / "copied", location)


@pytest.mark.parametrize(
    "name", ["a%20b.json", "a c.json", "events%20(1).json", "a%2Bb.json", "100%25.json", "new.json"]
)
def test_a_file_whose_name_only_looks_like_that_of_one_that_was_read_is_new(
    spark: SparkSession, read_files: tuple[Path, TableLocation], name: str
) -> None:
    folder, location = read_files
    with in_place_of_all_others(folder, name):
        read_position.refuse_files_already_read(spark, folder, location)


def test_a_file_from_before_all_that_is_kept_of_files_may_have_been_read(
    spark: SparkSession, read_files: tuple[Path, TableLocation]
) -> None:
    folder, location = read_files
    oldest = location.read(spark.read, RAW_EVENTS).selectExpr("unix_millis(min(ingested_at))").collect()[0][0]
    with in_place_of_all_others(folder, "new.json") as file:
        os.utime(file, ns=(oldest * 1_000_000,) * 2)
        read_position.refuse_files_already_read(spark, folder, location)
        os.utime(file, ns=((oldest - 1) * 1_000_000,) * 2)
        with pytest.raises(
            ConfigurationError, match=r"holds 1 files from before .*, since when raw_events knows .*new\.json"
        ):
            read_position.refuse_files_already_read(spark, folder, location)


ALL = ("starts.json", "seed", "seed/_SUCCESS")
# By how a start was killed: what is there of what it had made, and what it had begun and done.
KILLS = {
    "before anything was made": ((), (), ()),
    "where to begin is written": (("starts.json",), (), ()),
    "half of the sessions are": (("starts.json", "seed"), (), ()),
    "all is written": (ALL, (), ()),
    "archive has begun": (ALL, (ARCHIVE,), ()),
    "archive and rollup are done": (ALL, (ARCHIVE, ROLLUP), (ARCHIVE, ROLLUP)),
    "sessionize has begun": (ALL, (SESSIONIZE,), ()),
    "sessionize has begun, archive is done": (ALL, (SESSIONIZE, ARCHIVE), (ARCHIVE,)),
    "sessionize is done": (ALL, (SESSIONIZE,), (SESSIONIZE,)),
    "the sessions are being deleted": (("starts.json", "seed"), (SESSIONIZE,), (SESSIONIZE,)),
}


def started(spark: SparkSession, location: TableLocation, folder: Path, *partitions: int) -> InitialState:
    """Start with a topic of these partitions, and another one, of which nothing was taken."""
    settings = SessionizeSettings(
        source="kafka", bootstrap_servers="b:9092", warehouse=location.warehouse, checkpoints=folder, from_sessions=True
    )
    checkpoint = open_checkpoint(folder, PinnedSettings.of(settings, str(location)), settings.rules, warm=True)
    with pytest.MonkeyPatch.context() as patch:
        topics = {"pc_sessions": dict.fromkeys(partitions, 5), "console_sessions": {0: 3}}
        ends = {"pc_sessions": dict.fromkeys(partitions, 9), "console_sessions": {0: 4}}
        patch.setattr(read_position, "read_topic_range", lambda *_: TopicRange(topics, ends))
        before = warm_start(JobContext(spark, settings, checkpoint, location))
    checkpoint.save_as_warm()
    return before


def archived_to(spark: SparkSession, location: TableLocation, offset: int) -> None:
    columns = f"'pc_sessions' AS stream, 0 AS partition, {offset}L AS offset, CAST(NULL AS string) AS file"
    when = "TIMESTAMP '2026-11-21 12:00:00' AS ingested_at, CAST('{}' AS binary) AS value, DATE '2026-11-21' AS ingest_date"
    location.append(spark.sql(f"SELECT {columns}, {when}"), RAW_EVENTS)


@pytest.fixture(scope="module")
def first_start(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[TableLocation, Path]:
    """A checkpoint begun after offset 7 with the one session that is live; the tables now know of offset 8."""
    location, folder = TableLocation(tmp_path_factory.mktemp("warehouse")), tmp_path_factory.mktemp("checkpoints")
    empty_tables(spark, location, owner="theirs")
    start = spark.createDataFrame([a_change(device_id="pc-1")], OUTPUT_SCHEMA)
    ChangesSink(location, "sessionize", "theirs", lambda _: None, (), StateSize)(start, 0)
    archived_to(spark, location, 7)
    started(spark, location, folder, 0, 1)
    archived_to(spark, location, 8)
    return location, folder


def test_where_no_row_of_a_file_is_kept_those_from_before_the_newest_change_may_have_been_read(
    spark: SparkSession, tmp_path: Path, first_start: tuple[TableLocation, Path]
) -> None:
    location, _ = first_start
    file = tmp_path / "pc_sessions" / "1.json"
    file.parent.mkdir()
    file.touch()
    read_position.refuse_files_already_read(spark, tmp_path, location)
    os.utime(file, ns=(NOW_MS * 1_000_000,) * 2)
    with pytest.raises(ConfigurationError, match="holds 1 files from before"):
        read_position.refuse_files_already_read(spark, tmp_path, location)


@pytest.mark.parametrize("kill", KILLS)
def test_what_is_begun_with_is_made_until_a_query_begins_and_then_kept(
    spark: SparkSession, tmp_path: Path, first_start: tuple[TableLocation, Path], kill: str
) -> None:
    """Else what `archive` takes before the session query begins would be taken for read, and be in no session."""
    made, begun, done = KILLS[kill]
    location, folder = first_start
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    for name in set(ALL) - set(made):
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for log, queries in (("offsets", begun), ("commits", done)):
        for query in queries:
            (tmp_path / query / log).mkdir(parents=True)
            (tmp_path / query / log / "0").write_text('v1\n{"batchTimestampMs":1}\n-\n')

    before = started(spark, location, tmp_path, 0, 1, 2)
    if {SESSIONIZE, ARCHIVE} <= set(begun):
        assert before.starts is None
    else:  # of a partition that was made meanwhile everything
        of_pc = {0: 8, 1: 5, 2: EARLIEST} if begun else {0: 9, 1: 5, 2: 5}
        assert before.starts == {"pc_sessions": of_pc, "console_sessions": {0: 3}}
    if SESSIONIZE in done:
        assert before.sessions is None
    else:
        assert before.sessions is not None
        assert [row.grouping_key for row in before.sessions.collect()] == ["pc-1"]
