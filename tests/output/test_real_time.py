"""`--mode real-time`: what it needs, what the engine reports, and Spark's own mode without the operator."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.errors import ConfigurationError
from sessionization.job.sessionize_job import run
from sessionization.message_limits import EventTimeLimits
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.kafka_source import client_options
from sessionization.spark.input.parse import parse, valid_events
from sessionization.spark.input.source import Begin, read_messages
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.output import changes_topic, real_time
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.real_time import SWITCH, check_runtime, report_engine_batches
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization_laptop.broker import Broker
from tests.support.default_streams import PC_STREAM, STREAMS
from tests.support.monitored import AT_MS, NO_PERCENTILES, Session, engine
from tests.support.settings import settings_of
from tests.support.stream_job import message
from tests.support.topics import Topics
from tests.support.waiting import expect_no_line, wait_for

TOPIC = "changes-of.a_target"


def settings_for(servers: str, folder: Path) -> SessionizeSettings:
    return settings_of(SessionizeSettings,
        source="kafka", bootstrap_servers=servers, sink="kafka", mode="real-time", trigger="10m",
        output_topic=TOPIC, warehouse=folder / "w", checkpoints=folder / "c",
    )  # fmt: skip


class Cluster:
    """A stand-in for a cluster's session with its settings."""

    def __init__(self, conf: dict[str, str]) -> None:
        self.conf = conf

    def getOrCreate(self) -> "Cluster":  # noqa: N802
        return self


@pytest.mark.parametrize(
    ("runtime", "conf", "missing"),
    [
        (None, {SWITCH: "true"}, "which Databricks alone has"),
        ("19.1", {}, f"start it with {SWITCH}=true"),
        ("19.1", {SWITCH: "false"}, f"start it with {SWITCH}=true"),
        ("19.1", {SWITCH: "true"}, None),
    ],
)
def test_the_error_names_the_missing_requirement(
    monkeypatch: pytest.MonkeyPatch, runtime: str | None, conf: dict[str, str], missing: str | None
) -> None:
    set_cluster(monkeypatch, runtime, conf)
    refused = pytest.raises(ConfigurationError, match=f"^--mode real-time .*{re.escape(missing or '')}")
    with contextlib.nullcontext() if missing is None else refused:
        check_runtime()


def set_cluster(monkeypatch: pytest.MonkeyPatch, runtime: str | None, conf: dict[str, str]) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    if runtime is not None:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", runtime)
    monkeypatch.setattr(SparkSession, "builder", Cluster(conf))


def test_without_a_cluster_the_job_is_refused_before_it_asks_a_broker_or_creates_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Databricks alone"):
        run(settings_for("127.0.0.1:9", tmp_path), threading.Event(), expect_no_line)
    assert list(tmp_path.iterdir()) == []


def engine_progress(batch_id: int, name: str = "sessionize", **more: Any) -> dict[str, Any]:
    """The engine's report on a batch in real-time mode."""
    report = engine(batch_id, name) | {"timestamp": "2025-11-21T12:00:00.123Z", "numInputRows": 7}
    return report | {"durationMs": {"triggerExecution": 60_123}} | more


def test_a_batch_is_stored_and_reported_with_the_values_that_the_engine_knows() -> None:
    session, calls = Session(), []
    listeners = [lambda one: calls.append(("report", one))]
    with report_engine_batches(
        session,  # type: ignore[arg-type]
        lambda one: calls.append(("store", one)),
        listeners,
        StateLayout(),
    ):
        session.hears(engine_progress(3, "archive"))
        session.hears(engine_progress(3))
        session.hears(engine_progress(4, stateOperators=[], durationMs={}))
    third = BatchProgress(
        "sessionize", 3, AT_MS, 7, 60_123, NO_PERCENTILES, state_rows=70, state_bytes=4096, state_entries=70
    )
    fourth = BatchProgress("sessionize", 4, AT_MS, 7, 0, NO_PERCENTILES)
    assert calls == [("store", third), ("report", third), ("store", fourth), ("report", fourth)]
    assert session.listeners == []


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys((*STREAMS, TOPIC), 1))
        yield broker.bootstrap_servers


def stateless_changes(events: DataFrame) -> DataFrame:
    """Replaces the operator, with its columns: every Start is a change, an End is only counted."""
    values = {name: F.col(name) for name in events.columns} | {
        "change": F.when(F.col("is_start"), "started"), "revision": F.lit(0), "duration_ms": F.lit(0),
        "started_ms": F.col("event_ms"), "processed_ms": F.col("ingested_ms"),
    }  # fmt: skip
    columns = (values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in OUTPUT_SCHEMA)
    return events.select(*columns)


@pytest.mark.spark
def test_changes_reach_the_topic_before_their_batch_ends(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    settings = settings_for(servers, tmp_path)
    limits = EventTimeLimits(settings.rules.max_clock_skew_ms, settings.rules.max_event_age_ms)
    events = valid_events(parse(read_messages(spark, settings, None, Begin(created_ms=0)), limits))
    brokers = client_options(spark, settings)
    changes = to_session_changes(stateless_changes(events))
    writer = real_time.topic_writer(changes, brokers, settings.output_topic, settings.pace.trigger_ms)
    producer = Producer({"bootstrap.servers": servers})
    sent = Topics(servers, 1, (TOPIC,))

    query = writer.option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        for number, device in enumerate(("d1", "ü")):
            for event in ("Start", "EndBi"):
                producer.produce(PC_STREAM, json.dumps(message(number, event, device)))
            producer.produce(PC_STREAM, b"{broken")
            producer.flush()
            wait_for(
                lambda: sent.ends()[TOPIC, 0] > number or not query.isActive,  # noqa: B023 - called at once
                "the change",
            )
        assert query.exception() is None
        assert query.lastProgress is None, "no batch has ended"
        assert sent.ends() == {(TOPIC, 0): 2}
    finally:
        query.stop()
    records = spark.read.format("kafka").options(**brokers).option("subscribe", TOPIC).load()
    rows = changes_topic.from_records(records, SESSION_CHANGES.schema).collect()
    assert {(row.device_id, row.session_id, row.platform, row.change) for row in rows} == {
        ("d1", 0, "pc", "started"), ("ü", 1, "pc", "started"),
    }  # fmt: skip
    assert all(row.started_at == row.event_at <= row.processed_at for row in rows)
