"""Preflight takes its sample from the messages that the job would read, and says what the event map makes of them."""

import json
import os
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import HadoopPath
from sessionization.ops.message_sample import sample_messages
from sessionization.ops.preflight import check_messages
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization_laptop.broker import Broker
from tests.input.kafka_settings import settings as kafka_settings
from tests.support.settings import settings_of
from tests.support.wire_cases import INGESTED_MS, START


def settings(folder: Path | HadoopPath) -> SessionizeSettings:
    places = {"input": folder, "warehouse": Path("w"), "checkpoints": Path("c")}
    return settings_of(SessionizeSettings, places)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An old and a new file of one stream, and beside them one that is not read."""
    stream = tmp_path / "pc_sessions"
    stream.mkdir()
    for name, age_s in {"a.json": 60, "b.jsonl": 0, "_hidden.json": 0, "c.csv": 0}.items():
        lines = [json.dumps(START | {"appSessionId": number, "hostPcId": name}) for number in range(3)]
        (stream / name).write_text("\r\n\n".join(lines) + "\n")
        os.utime(stream / name, ns=((INGESTED_MS - age_s * 1_000) * 1_000_000,) * 2)
    return tmp_path


@pytest.mark.spark
def test_the_newest_files_come_first(spark: SparkSession, folder: Path) -> None:
    found = sample_messages(spark, settings(folder), 8)
    assert [json.loads(message.value)["hostPcId"] for message in found] == ["b.jsonl"] * 3 + ["a.json"]
    assert [message.ingested_ms for message in found] == [INGESTED_MS] * 3 + [INGESTED_MS - 60_000]
    assert found[0].place == f"message 1 of {folder}/pc_sessions/b.jsonl"


@pytest.mark.spark
def test_files_at_a_uri_give_the_same_messages(spark: SparkSession, folder: Path) -> None:
    found = sample_messages(spark, settings(HadoopPath(f"file:{folder}")), 100)
    expected = sample_messages(spark, settings(folder), 100)
    assert {(message.value, message.ingested_ms) for message in found} == {
        (message.value, message.ingested_ms) for message in expected
    }
    assert len(found) == len(expected) == 6


@pytest.mark.spark
def test_the_check_prints_what_was_understood_and_fails_where_nothing_was(spark: SparkSession, folder: Path) -> None:
    lines: list[str] = []
    assert check_messages(spark, settings(folder), lines.append) == "6 of 6 are events"
    assert "kinds: ApplicationSessionStart 6 (start)" in lines[1]
    for file in (folder / "pc_sessions").iterdir():
        file.write_text('{"name": "session_start"}\n')
    with pytest.raises(ConfigurationError, match="--events default makes no event of them: correct the map"):
        check_messages(spark, settings(folder), lines.append)
    assert check_messages(spark, settings(folder / "empty"), lines.append) == "there are none so far"


@pytest.mark.job
def test_topics_give_records_of_the_last_minutes_or_their_oldest(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        broker.create_topics({"console_sessions": 2})
        broker.create_topics({"pc_sessions": 2}, message_timestamp_type="CreateTime")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(3):
            producer.produce("pc_sessions", f"old {number}", timestamp=INGESTED_MS - 86_400_000)
            producer.produce("console_sessions", f"new {number}", partition=number % 2)
        producer.produce("console_sessions", None, partition=1)
        producer.flush(20)
        found = sample_messages(spark, kafka_settings(broker.bootstrap_servers), 100)
    values = {
        stream: sorted(m.value for m in found if m.stream == stream) for stream in ("pc_sessions", "console_sessions")
    }
    assert values == {
        "pc_sessions": [b"old 0", b"old 1", b"old 2"],
        "console_sessions": [b"", b"new 0", b"new 1", b"new 2"],
    }
    assert {m.ingested_ms for m in found if m.stream == "pc_sessions"} == {INGESTED_MS - 86_400_000}
    assert found[-1].place.startswith("partition ")
