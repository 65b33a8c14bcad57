"""Changes that go by way of the topic are in the table once, as if they had been appended to it at once."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from sessionization.errors import ConfigurationError
from sessionization.local.broker import Broker
from sessionization.ops import land_changes
from sessionization.ops.land_changes import Landing
from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.job_context import JobContext
from sessionization.spark.operator.codec import OUTPUT_SCHEMA
from sessionization.spark.output import changes_topic
from sessionization.spark.output.sinks import ChangesSink, StateSize, to_session_changes
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.warm_start.initial_state import warm_start
from tests.spark.test_stream import wait_for
from tests.spark.test_tables import NOW_MS, a_change
from tests.spark.warehouse import empty_tables

TOPIC = "changes-of.a_target"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics({TOPIC: 2, OUTPUT_TOPIC: 1})
        yield {"kafka.bootstrap.servers": broker.bootstrap_servers}


def made(spark: SparkSession, folder: Path) -> TableLocation:
    location = TableLocation(folder)
    empty_tables(spark, location, owner="ours")
    return location


def rows_of(location: TableLocation, spark: SparkSession) -> list[str]:
    return sorted(map(str, location.read(spark.read, SESSION_CHANGES).collect()))


def micro_batch(spark: SparkSession, number: int) -> DataFrame:
    """Of ten devices a Start, a heartbeat, an End and an orphan, with all that is odd in names and nulls."""
    at: dict[str, Any] = {"processed_ms": NOW_MS + 1_000 * number, "event_ms": None, "ingested_ms": None}
    names = [f"d{number}-{device}" for device in range(8)] + [f'"ü\\ \u2028 {number}', f"null-{number}"]
    beat = {"change": "heartbeat", "beat": 3, "missed_beats": 0, "due_ms": NOW_MS - 7}
    end = {"change": "ended", "end_reason": "reported", "ended_ms": NOW_MS + 5, "foreground_s": 12, "account_id": ""}
    orphan = {"change": "ended", "end_reason": "orphaned", "ended_ms": NOW_MS, "duration_ms": None, "started_ms": None}
    start = {"event_ms": NOW_MS, "ingested_ms": NOW_MS + 1}
    rows = [
        a_change(device_id=name, session_id=2**62 + kind, **at | said)
        for name in names
        for kind, said in enumerate((start, beat, end, orphan))
    ]
    return spark.createDataFrame(rows, OUTPUT_SCHEMA)


def test_by_the_topic_with_kills_is_the_same_as_directly(
    spark: SparkSession, tmp_path: Path, servers: dict[str, str]
) -> None:
    direct, landed = made(spark, tmp_path / "direct"), made(spark, tmp_path / "landed")
    straight = ChangesSink(direct, "sessionize", "w", lambda _: None, (), StateSize)
    publish = partial(changes_topic.publish, options=servers, output_topic=TOPIC)
    sent = ChangesSink(landed, "sessionize", "w", lambda _: None, (), StateSize, publish)

    def cut_off(changes: DataFrame) -> None:
        publish(changes.where("abs(hash(device_id)) % 3 = 0"))
        msg = "killed"
        raise RuntimeError(msg)

    killed = ChangesSink(landed, "sessionize", "w", lambda _: None, (), StateSize, cut_off)

    def landing_from(checkpoints: Path) -> Any:
        return Landing(landed, servers, TOPIC, checkpoints, trigger_ms=200).start(spark)

    def count(location: TableLocation) -> int:
        return location.read(spark.read, SESSION_CHANGES).count()

    changes_topic.publish(
        to_session_changes(micro_batch(spark, 9)), servers, OUTPUT_TOPIC
    )  # another target's, on these brokers
    query = landing_from(tmp_path / "checkpoints")
    try:
        for number in range(4):
            batch = micro_batch(spark, number)
            straight(batch, number)
            with pytest.raises(Exception, match="killed"):
                killed(batch, number)
            if number == 1:  # part of a micro-batch has landed when the whole of it comes again
                wait_for(lambda: count(landed) > 40, "the part")
            sent(batch, number)
            if number == 2:
                query.stop()  # wherever it is
                sent(batch, number)
                query = landing_from(tmp_path / "checkpoints")
        wait_for(lambda: count(landed) >= count(direct), "all changes")
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows_of(landed, spark) == rows_of(direct, spark)

    query = landing_from(tmp_path / "another")  # reads everything again
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows_of(landed, spark) == rows_of(direct, spark)


def test_a_backlog_is_landed_piece_by_piece(
    spark: SparkSession, tmp_path: Path, servers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 100
    monkeypatch.setattr(land_changes, "MAX_CHANGES_PER_MICRO_BATCH", bound)
    location = made(spark, tmp_path)
    for number in (20, 21, 22):
        changes_topic.publish(to_session_changes(micro_batch(spark, number)), servers, TOPIC)
    query = Landing(location, servers, TOPIC, tmp_path / "checkpoints", trigger_ms=1).start(spark)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert location.read(spark.read, SESSION_CHANGES).count() >= 120
    commits = location.delta_table(spark, SESSION_CHANGES).history().where("operation = 'WRITE'").collect()
    assert max(int(commit.operationMetrics["numOutputRows"]) for commit in commits) <= bound


def test_what_is_no_change_is_left_out_and_told(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    location = made(spark, tmp_path)
    sink = ChangesSink(location, "sessionize", "w", lambda _: None, (), StateSize)
    sent: list[DataFrame] = []
    sink.publish = lambda rows: sent.append(changes_topic.to_messages(rows).localCheckpoint())
    sink(micro_batch(spark, 0), 0)
    values = ['{"device_id": "d"}', "{bro", None, *(json.dumps(change) for change in refused_by_the_table().values())]
    foreign = spark.createDataFrame([("k", value) for value in values], "key string, value string")
    land_changes.append_missing_changes(location, TOPIC, changes_topic.from_records(sent[0].union(foreign)))
    assert location.read(spark.read, SESSION_CHANGES).count() == 40
    assert f"{len(values)} records of {TOPIC} are no changes" in caplog.text


def refused_by_the_table() -> dict[str, dict[str, Any]]:
    """By constraint of the table what another sender may send, all else of it being right."""
    at = "2026-11-22T17:42:33.375Z"
    right = {"device_id": "d", "session_id": 1, "platform": "pc", "revision": 0, "duration_ms": 0, "processed_at": at}
    started, beat = right | {"change": "started"}, right | {"change": "heartbeat", "beat": 1, "due_at": at}
    ended = right | {"change": "ended", "ended_at": at, "end_reason": "reported"}
    wrong = {
        "known_platform": started | {"platform": "ps5"},
        "known_change": started | {"change": "paused"},
        "reason_when_ended": {name: said for name, said in ended.items() if name != "end_reason"},
        "known_reason": ended | {"end_reason": "left"},
        "end_when_ended": {name: said for name, said in ended.items() if name != "ended_at"},
        "never_negative": started | {"duration_ms": -1},
        "beat_when_heartbeat": {name: said for name, said in beat.items() if name != "due_at"},
    }
    assert wrong.keys() == dict(SESSION_CHANGES.constraints).keys()
    return wrong


@pytest.mark.long
def test_a_warm_start_waits_until_all_of_the_topic_has_landed(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        broker.create_topics({OUTPUT_TOPIC: 2})
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        location = made(spark, tmp_path / "warehouse")
        settings = SessionizeSettings(
            source="kafka", sink="kafka", bootstrap_servers=broker.bootstrap_servers, from_sessions=True,
            warehouse=location.warehouse, checkpoints=tmp_path / "checkpoints",
        )  # fmt: skip
        fixed = PinnedSettings.of(settings, str(location))
        checkpoint = open_checkpoint(settings.checkpoints, fixed, settings.rules, warm=True)

        def remembered() -> set[str]:
            before = warm_start(JobContext(spark, settings, checkpoint, location))
            assert before.sessions is not None
            return {row.grouping_key for row in before.sessions.collect()}

        def send(*changes: tuple) -> None:
            changes_topic.publish(
                to_session_changes(spark.createDataFrame(changes, OUTPUT_SCHEMA)), servers, settings.output_topic
            )

        def land() -> None:
            query = Landing(location, servers, settings.output_topic, tmp_path / "landing", trigger_ms=1).start(spark)
            try:
                query.processAllAvailable()
            finally:
                query.stop()

        def behind() -> int:
            table = location.read(spark.read, SESSION_CHANGES)
            return changes_topic.count_unlanded_partitions(
                spark, table, servers, settings.output_topic, tmp_path / "scratch"
            )

        assert remembered() == set()
        changes_topic.publish(to_session_changes(micro_batch(spark, 0)), servers, settings.output_topic)
        with pytest.raises(
            ConfigurationError, match="lacks the newest changes of 2 partitions of output_sessions: let"
        ):
            remembered()
        land()
        assert len(remembered()) == 10
        assert sorted(path.name for path in settings.checkpoints.iterdir()) == ["layout.json", "seed", "starts.json"]

        later = {"device_id": "d", "processed_ms": NOW_MS + 5_000}
        send(a_change(session_id=1, **later))
        assert behind() == 1
        land()
        assert behind() == 0
        # A micro-batch that was cut off comes again, and not in the order that it had.
        send(a_change(session_id=2, **later))
        send(a_change(session_id=1, **later))
        assert behind() == 1
        land()
        foreign = spark.sql("SELECT 'd' AS key, '{}' AS value FROM range(3)")
        foreign.write.format("kafka").options(**servers).option("topic", settings.output_topic).save()
        assert behind() == 0

        # Whose rows were deleted, as of an account that is erased, lands no more: then the topic has to be empty.
        location.delta_table(spark, SESSION_CHANGES).delete("session_id = 2")
        assert behind() == 1
        forget(broker, settings.output_topic, to=1)
        assert behind() == 1
        forget(broker, settings.output_topic, to=-1)
        assert behind() == 0


def forget(broker: Broker, name: str, to: int) -> None:
    """Delete the records before the offset `to` of each of two partitions; -1 is the end."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(name, number, to) for number in range(2)]).values():
        deleted.result(20)
