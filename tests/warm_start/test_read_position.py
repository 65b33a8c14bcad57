"""The offsets from which a new checkpoint reads: found in the tables and at a real broker, and then stored."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sessionization import files
from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.spark.input import topic_offsets
from sessionization.spark.input.topic_offsets import read_topic_range
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.warm_start import read_position
from sessionization.spark.warm_start.initial_state import warm_start
from sessionization.streams import STREAMS
from sessionization_laptop.broker import Broker
from tests.support.checkpoint_folder import begin_micro_batch
from tests.support.topics import delete_records
from tests.support.warm_start import NOW_MS, WarmStart, warm_context


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

    no_spark: Any = None  # this part of a warm start needs none
    location = TableLocation(tmp_path / "w")
    context = warm_context(no_spark, location, tmp_path, source="kafka", bootstrap_servers="b:9092")
    context.checkpoint.save_as_warm()
    monkeypatch.setattr(read_position, "next_offsets", interrupt)
    with pytest.raises(InterruptedError):
        warm_start(context)
    begin_micro_batch(tmp_path, 0, 1_000)  # from now on the file is read, not written again
    (tmp_path / "starts.json").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"starts\.json is not readable \(.*\): restore it from a backup"):
        warm_start(context)
