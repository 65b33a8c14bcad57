"""What a warm start reads of the tables, and from which offsets it goes on: found there and at a real broker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sessionization import files
from sessionization.clock import utc
from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.spark.input import topic_offsets
from sessionization.spark.input.topic_offsets import Offsets, TopicRange, read_topic_range
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output.sinks import ChangesSink, SinkContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, SESSIONS, STREAM_PROGRESS, Table
from sessionization.spark.warm_start import read_position
from sessionization.spark.warm_start.initial_state import warm_start
from sessionization.spark.warm_start.remembered_state import newest_clock_ms
from sessionization_laptop.broker import Broker
from tests.support.changes import a_change
from tests.support.checkpoint_folder import begin_micro_batch
from tests.support.default_streams import STREAMS
from tests.support.delta import live_files
from tests.support.topics import delete_records
from tests.support.warehouse import empty_tables, frame_of
from tests.support.warm_start import NOW_MS, WarmStart, archive, warm_context


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics({"pc_sessions": 2, "console_sessions": 2}, message_timestamp_type="CreateTime")
        yield broker


@pytest.mark.spark
def test_a_warm_start_continues_where_the_tables_end(spark: SparkSession, tmp_path: Path, broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def produce(value: bytes, topic: str, partition: int, ms: int = NOW_MS) -> None:
        producer.produce(topic, value, partition=partition, timestamp=ms)
        assert producer.flush(20) == 0

    for value in (b"pc-0", b"pc-1", b"pc-2"):
        produce(value, "pc_sessions", 0)
    for days, value in ((5, b"quiet-0"), (4, b"quiet-1")):
        produce(value, "console_sessions", 0, NOW_MS - days * DAY_MS)
        produce(value, "console_sessions", 1, NOW_MS - days * DAY_MS)
    start = WarmStart(spark, tmp_path, broker)
    assert start.offsets() is None  # no topic was ever read, as in a job that read files

    pc_messages = [("pc_sessions", 0, offset, NOW_MS) for offset in (0, 1)]
    start.archive(*pc_messages, ("console_sessions", 0, 0, NOW_MS - 5 * DAY_MS))
    # A partition that was quiet for days does not move the others back.
    # A partition without rows starts at the oldest ingest time of the table.
    expected = {"pc_sessions": {0: 2, 1: 0}, "console_sessions": {0: 1, 1: 0}}
    assert start.offsets() == expected
    start.delete_rows("stream = 'console_sessions'")
    assert start.offsets() == {"pc_sessions": {0: 2, 1: 0}, "console_sessions": {0: 2, 1: 2}}
    produce(b"new", "pc_sessions", 1)
    assert sorted(start.read_from(expected)) == [b"new", b"pc-2", b"quiet-0", b"quiet-1", b"quiet-1"]

    for name in ("pc_sessions", "console_sessions"):  # everything is read, and then the topics are empty
        delete_records(broker, name, to=-1)
    start.archive(("pc_sessions", 0, 2, NOW_MS))
    assert start.offsets() == {"pc_sessions": {0: 3, 1: 1}, "console_sessions": {0: 2, 1: 2}}

    # Topics that end earlier are other ones: their records are new at any offset, and would be skipped.
    start.archive(("pc_sessions", 0, 10, NOW_MS), ("pc_sessions", 2, 0, NOW_MS))
    with pytest.raises(ConfigurationError, match="partition 0 of pc_sessions does not reach offset 10, but raw_events"):
        start.offsets()
    last = read_position._last_offsets(spark, start.location, {"pc_sessions": {0: 0, 1: 0}})
    assert ("pc_sessions", 2) in last, "a partition that the topic lacks"


@pytest.mark.spark
def test_on_a_volume_the_ends_of_topics_depend_on_no_listing(
    spark: SparkSession, tmp_path: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listing that is some seconds old has nothing of a folder that was just made, so nothing of it is deleted."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for topic in STREAMS:
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(20) == 0
    monkeypatch.setattr(files, "VOLUMES", tmp_path)
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(()))
    monkeypatch.setattr(topic_offsets, "remove_tree", lambda _: None)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    for topic in STREAMS:
        [(found, ends)] = read_topic_range(spark, options, (topic,), 0, tmp_path / "scratch").ends.items()
        assert found == topic
        assert ends[0] > 0


@pytest.mark.parametrize("text", ["", "3", '{"pc_sessions": {"x": 1}}', "\xff"])
def test_stored_offsets_that_cannot_be_read_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    def interrupt(_context: JobContext) -> NoReturn:
        raise InterruptedError

    def start() -> None:
        no_spark: Any = None  # this part of a warm start needs none
        location = TableLocation(tmp_path / "w")
        job = warm_context(no_spark, location, tmp_path, source="kafka", bootstrap_servers="b:9092")
        job.checkpoint.write()
        warm_start(job)

    monkeypatch.setattr(read_position, "next_offsets", interrupt)
    with pytest.raises(InterruptedError):
        start()
    begin_micro_batch(tmp_path, 0, 1_000)  # from now on the file is read, not written again
    (tmp_path / "starts.json").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"starts\.json is not readable \(.*\): restore it from a backup"):
        start()


OLD_MS = NOW_MS - 100 * DAY_MS


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> TableLocation:
    return empty_tables(spark, TableLocation(tmp_path / "warehouse"), owner="theirs")


def context(spark: SparkSession, location: TableLocation, **options: object) -> JobContext:
    assert location.warehouse is not None
    return warm_context(spark, location, location.warehouse.parent / "checkpoints", **options)


def append_changes(spark: SparkSession, location: TableLocation, batch_id: int, *changes: tuple) -> None:
    rows = spark.createDataFrame(list(changes), OUTPUT_SCHEMA)
    ChangesSink(SinkContext("sessionize", location, "theirs"))(rows, batch_id)


def report(spark: SparkSession, location: TableLocation, at_ms: int) -> None:
    row = {"query": "sessionize", "batch_id": 0, "processed_at": utc(at_ms), "rows_in": 0}
    location.append(frame_of(spark, STREAM_PROGRESS, [row]), STREAM_PROGRESS)


def at(ms: int, session_id: int, **changes: object) -> tuple:
    instants = {"started_ms": ms, "event_ms": ms, "ingested_ms": ms, "processed_ms": ms}
    return a_change(device_id=f"pc-{session_id}", session_id=session_id, **instants | changes)


def remove_files(location: TableLocation, table: Table, *, after_ms: int, before_ms: int) -> None:
    """Remove the data files of the days between two instants; a read of one of them then fails."""
    assert location.warehouse is not None
    folder = location.warehouse / table.name
    days = {name: name.partition("=")[2].partition("/")[0] for name in live_files(folder)}
    removed = [name for name, day in days.items() if day_of(after_ms) < day < day_of(before_ms)]
    assert removed
    for name in removed:
        (folder / name).unlink()


def day_of(instant_ms: int) -> str:
    return utc(instant_ms).date().isoformat()


@pytest.mark.spark
@pytest.mark.long
def test_changes_and_sessions_of_older_days_are_not_read(
    spark: SparkSession, tmp_path: Path, location: TableLocation
) -> None:
    (tmp_path / "input").mkdir()
    end = {"change": "ended", "end_reason": "reported", "ended_ms": OLD_MS + 1_000, "duration_ms": 1_000}
    append_changes(spark, location, 0, at(OLD_MS, 1), at(OLD_MS, 1, **end), at(NOW_MS - 1, 3))
    report(spark, location, NOW_MS - 1)
    job = context(spark, location, input=tmp_path / "input")
    warm_start(job)  # merges these changes
    append_changes(spark, location, 1, at(NOW_MS, 2))
    for table in (SESSION_CHANGES, SESSIONS):
        remove_files(location, table, after_ms=0, before_ms=NOW_MS - 50 * DAY_MS)

    state = warm_start(job)

    assert state.sessions is not None
    assert sorted(row.grouping_key for row in state.sessions.collect()) == ["pc-2", "pc-3"]
    assert state.changes_version == location.newest_version(spark, SESSION_CHANGES)


@pytest.mark.spark
def test_the_newest_clock_is_that_of_the_newest_change_or_of_a_later_micro_batch_without_one(
    spark: SparkSession, location: TableLocation
) -> None:
    assert newest_clock_ms(spark, location) == 0
    append_changes(spark, location, 0, at(OLD_MS, 1), at(OLD_MS + 7, 2))
    assert newest_clock_ms(spark, location) == OLD_MS + 7, "no row of stream_progress was written yet"
    report(spark, location, NOW_MS - 5)
    append_changes(spark, location, 1, at(NOW_MS, 3), at(NOW_MS - 2, 4))
    assert newest_clock_ms(spark, location) == NOW_MS
    report(spark, location, NOW_MS + 1)
    assert newest_clock_ms(spark, location) == NOW_MS + 1


@pytest.mark.spark
def test_offsets_of_older_days_are_not_read_without_need(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_offsets(*partitions: int) -> Offsets | None:
        since, ends = ({"pc_sessions": dict.fromkeys(partitions, value)} for value in (0, 1_000))
        monkeypatch.setattr(read_position, "read_topic_range", lambda *_: TopicRange(since, ends))
        return read_position.next_offsets(context(spark, location, source="kafka", bootstrap_servers="b:9092"))

    pc = "pc_sessions"
    oldest = (pc, 0, 1, OLD_MS - DAY_MS)  # the oldest day is read
    old, new = ((pc, 2, 9, OLD_MS), (pc, 1, 99, OLD_MS)), ((pc, 0, 50, NOW_MS), (pc, 1, 51, NOW_MS))
    archive(spark, location, oldest, *old, *new)
    assert next_offsets(0, 1, 2) == {"pc_sessions": {0: 51, 1: 100, 2: 10}}, "a later offset, and a quiet partition"

    location.delta_table(spark, RAW_EVENTS).delete("offset = 99 OR partition = 2")
    archive(spark, location, (pc, 1, 9, OLD_MS))
    remove_files(location, RAW_EVENTS, after_ms=OLD_MS - DAY_MS, before_ms=NOW_MS)
    assert next_offsets(0, 1) == {"pc_sessions": {0: 51, 1: 52}}
