"""Changes that go through the topic are in the table once, as if the job had appended them directly."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.ops import land_changes
from sessionization.ops.land_changes import Landing
from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output import changes_topic
from sessionization.spark.output.sinks import ChangesSink, SinkContext, to_session_changes
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.warm_start.initial_state import warm_start
from sessionization_laptop.broker import Broker
from tests.support.changes import NOW_MS, a_change, changes_frame
from tests.support.topics import delete_records
from tests.support.waiting import wait_for
from tests.support.warehouse import empty_tables
from tests.support.warm_start import warm_context

pytestmark = pytest.mark.spark

TOPIC = "changes-of.a_target"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics({TOPIC: 2, OUTPUT_TOPIC: 1})
        yield {"kafka.bootstrap.servers": broker.bootstrap_servers}


def land(query: StreamingQuery) -> None:
    """Let a landing query read the whole topic, and stop it."""
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def sorted_rows(location: TableLocation, spark: SparkSession) -> list[str]:
    return sorted(map(str, location.read(spark.read, SESSION_CHANGES).collect()))


def micro_batch(spark: SparkSession, number: int) -> DataFrame:
    """A Start, a heartbeat, an End and an orphan of each of ten devices, with odd names and nulls."""
    common: dict[str, Any] = {"processed_ms": NOW_MS + 1_000 * number, "event_ms": None, "ingested_ms": None}
    names = [f"d{number}-{device}" for device in range(8)] + [f'"ü\\ \u2028 {number}', f"null-{number}"]
    beat = {"change": "heartbeat", "beat": 3, "missed_beats": 0, "due_ms": NOW_MS - 7}
    end = {"change": "ended", "end_reason": "reported", "ended_ms": NOW_MS + 5, "foreground_s": 12, "account_id": ""}
    orphan = {"change": "ended", "end_reason": "orphaned", "ended_ms": NOW_MS, "duration_ms": None, "started_ms": None}
    start = {"event_ms": NOW_MS, "ingested_ms": NOW_MS + 1}
    rows = [
        a_change(device_id=name, session_id=2**62 + kind, **common | fields)
        for name in names
        for kind, fields in enumerate((start, beat, end, orphan))
    ]
    return spark.createDataFrame(rows, OUTPUT_SCHEMA)


@pytest.mark.long
def test_changes_through_the_topic_with_kills_equal_changes_appended_directly(
    spark: SparkSession, tmp_path: Path, servers: dict[str, str]
) -> None:
    direct, landed = (
        empty_tables(spark, TableLocation(tmp_path / name), owner="ours") for name in ("direct", "landed")
    )
    direct_sink = ChangesSink(SinkContext("sessionize", direct, "w"))
    publish = partial(changes_topic.publish, options=servers, output_topic=TOPIC)
    topic_sink = ChangesSink(SinkContext("sessionize", landed, "w"), publish=publish)

    def cut_off(changes: DataFrame) -> None:
        publish(changes.where("abs(hash(device_id)) % 3 = 0"))
        msg = "killed"
        raise RuntimeError(msg)

    killed_sink = ChangesSink(SinkContext("sessionize", landed, "w"), publish=cut_off)

    def landing_from(checkpoints: Path) -> Any:
        return Landing(landed, servers, TOPIC, checkpoints, trigger_ms=200).start(spark)

    def count(location: TableLocation) -> int:
        return location.read(spark.read, SESSION_CHANGES).count()

    changes_topic.publish(
        to_session_changes(micro_batch(spark, 9)), servers, OUTPUT_TOPIC
    )  # changes of another bundle target on the same brokers
    query = landing_from(tmp_path / "checkpoints")
    try:
        for number in range(4):
            batch = micro_batch(spark, number)
            direct_sink(batch, number)
            with pytest.raises(Exception, match="killed"):
                killed_sink(batch, number)
            if number == 1:  # part of a micro-batch lands before the replay sends all of it
                wait_for(lambda: count(landed) > 40, "the part")
            topic_sink(batch, number)
            if number == 2:
                query.stop()  # at any point of its work
                topic_sink(batch, number)
                query = landing_from(tmp_path / "checkpoints")
        wait_for(lambda: count(landed) >= count(direct), "all changes")
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted_rows(landed, spark) == sorted_rows(direct, spark)

    land(landing_from(tmp_path / "another"))  # reads everything again
    assert sorted_rows(landed, spark) == sorted_rows(direct, spark)


def test_records_that_are_no_valid_change_are_skipped_and_logged(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    location = empty_tables(spark, TableLocation(tmp_path), owner="ours")
    sink = ChangesSink(SinkContext("sessionize", location, "w"))
    messages: list[DataFrame] = []
    sink.publish = lambda rows: messages.append(changes_topic.to_messages(rows).localCheckpoint())
    sink(micro_batch(spark, 0), 0)
    common = {"device_id": "d", "session_id": 1, "platform": "pc", "revision": 0, "duration_ms": 0}
    change = common | {"change": "started"}
    paused = common | {"change": "paused", "processed_at": "2026-11-22T17:42:33.375Z"}
    values = ['{"device_id": "d"}', "{bro", None, json.dumps(change), json.dumps(paused)]
    foreign = spark.createDataFrame([("k", value) for value in values], "key string, value string")
    changes = changes_topic.from_records(messages[0].union(foreign), SESSION_CHANGES.schema)
    land_changes.append_missing_changes(location, TOPIC, changes)
    assert location.read(spark.read, SESSION_CHANGES).count() == 40
    assert f"{len(values)} records of {TOPIC} are no changes" in caplog.text


def test_a_landing_takes_a_column_that_the_job_adds_meanwhile(spark: SparkSession, tmp_path: Path) -> None:
    location, labels = empty_tables(spark, TableLocation(tmp_path), owner="ours"), ("title", "order")
    landing = Landing(location, {}, TOPIC, tmp_path / "landing", trigger_ms=1)

    def land_batch(number: int, columns: tuple[str, ...]) -> None:
        output = micro_batch(spark, number).withColumn(
            "labels", F.expr("IF(change = 'started', '[\"chess\",null]', NULL)")
        )
        landing._append(changes_topic.to_messages(to_session_changes(output, columns)).localCheckpoint(), number)

    land_batch(0, ())
    fit_to_events(spark, location, package_map(DEFAULT), labels)
    for number in (1, 1):  # the second time all of it is there
        land_batch(number, labels)
    land_batch(0, ())
    rows = location.read(spark.read, SESSION_CHANGES).collect()
    assert Counter((row.change, row.title, row.order) for row in rows) == {
        ("started", "chess", None): 10, ("started", None, None): 10, ("heartbeat", None, None): 20,
        ("ended", None, None): 40,
    }  # fmt: skip


def test_a_landing_takes_sessions_that_fall_silent_and_go_on(spark: SparkSession, tmp_path: Path) -> None:
    location = empty_tables(spark, TableLocation(tmp_path), owner="ours")
    fit_to_events(spark, location, package_map(DEFAULT), (), has_activity=True)
    landing = Landing(location, {}, TOPIC, tmp_path / "landing", trigger_ms=1)
    silent = a_change(change="ended", end_reason="inactive", ended_ms=NOW_MS)
    goes_on = a_change(change="resumed", revision=1, duration_ms=None)
    messages = changes_topic.to_messages(changes_frame(spark, [silent, goes_on])).localCheckpoint()
    for number in range(2):
        landing._append(messages, number)
    rows = location.read(spark.read, SESSION_CHANGES).collect()
    assert sorted((row.change, row.end_reason, row.revision) for row in rows) == [
        ("ended", "inactive", 0),
        ("resumed", None, 1),
    ]


@pytest.mark.long
def test_a_warm_start_is_refused_until_the_whole_topic_has_landed(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        broker.create_topics({OUTPUT_TOPIC: 2})
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        location = empty_tables(spark, TableLocation(tmp_path / "warehouse"), owner="ours")
        kafka = {"source": "kafka", "sink": "kafka", "bootstrap_servers": broker.bootstrap_servers}
        job = warm_context(spark, location, tmp_path / "checkpoints", **kafka)
        landing = Landing(location, servers, OUTPUT_TOPIC, tmp_path / "landing", trigger_ms=1)

        def seeded_keys() -> set[str]:
            initial_state = warm_start(job)
            assert initial_state.sessions is not None
            return {row.grouping_key for row in initial_state.sessions.collect()}

        def send(change: tuple) -> None:
            changes_topic.publish(changes_frame(spark, [change]), servers, OUTPUT_TOPIC)

        def count_unlanded() -> int:
            table = location.read(spark.read, SESSION_CHANGES)
            return changes_topic.count_unlanded_partitions(spark, table, servers, OUTPUT_TOPIC, tmp_path / "scratch")

        assert seeded_keys() == set()
        changes_topic.publish(to_session_changes(micro_batch(spark, 0)), servers, OUTPUT_TOPIC)
        with pytest.raises(
            ConfigurationError, match="lacks the newest changes of 2 partitions of output_sessions: let"
        ):
            seeded_keys()
        land(landing.start(spark))
        assert len(seeded_keys()) == 10
        names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
        assert names == {"layout.json", "seed", "starts.json", "unread"}

        later = {"device_id": "d", "processed_ms": NOW_MS + 5_000}
        send(a_change(session_id=1, **later))
        assert count_unlanded() == 1
        land(landing.start(spark))
        assert count_unlanded() == 0
        # A micro-batch that was cut off is replayed, and its changes come in another order.
        send(a_change(session_id=2, **later))
        send(a_change(session_id=1, **later))
        assert count_unlanded() == 1
        land(landing.start(spark))
        foreign = spark.sql("SELECT 'd' AS key, '{}' AS value FROM range(3)")
        foreign.write.format("kafka").options(**servers).option("topic", OUTPUT_TOPIC).save()
        assert count_unlanded() == 0

        # Changes whose rows were deleted, as by an erasure, do not land again: the topic has to be empty then.
        location.delta_table(spark, SESSION_CHANGES).delete("session_id = 2")
        assert count_unlanded() == 1
        delete_records(broker, OUTPUT_TOPIC, to=1)
        assert count_unlanded() == 1
        delete_records(broker, OUTPUT_TOPIC, to=-1)
        assert count_unlanded() == 0
