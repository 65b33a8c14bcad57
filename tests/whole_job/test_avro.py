"""A topic of Avro messages: the schema changes while the job runs, the registry goes away, and messages are broken."""

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import backfill
from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.core.session_state import Rules
from sessionization.errors import ConfigurationError
from sessionization.ops.preflight import check_messages
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization_laptop.broker import Broker
from tests.support.accounts import unaccounted
from tests.support.avro_lobby import FIRST, SCHEMAS, SECOND, content, framed, map_text
from tests.support.avro_wire import frame
from tests.support.checkpoints import committed_offsets, started_offsets
from tests.support.evening import Evening, place_in_evening
from tests.support.event_maps import LOBBY
from tests.support.harness import pending_ends
from tests.support.in_process import RunningJob, job_running
from tests.support.oracle import build_oracle
from tests.support.schema_registry import SchemaRegistry
from tests.support.settings import settings_of
from tests.support.tables import differences, read_tables
from tests.support.topics import Topics
from tests.support.wire import lines_of

pytestmark = pytest.mark.spark

STREAMS, PARTITIONS, GROUPS = ("rooms", "halls"), 2, 8
RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=3_600_000, late_retention_ms=3_600_000)
"""No session times out or is forgotten, so the backfill's sessions do not depend on how fast the job is."""


def evening(folder: Path) -> list[tuple[str, int, bytes]]:
    """The messages of a dirty evening that ends now, in JSON: stream, time of arrival, message."""
    (folder / "json.yml").write_text(LOBBY)
    staging, ends_ms = folder / "staging", time.time_ns() // 1_000_000
    Evening(staging, ends_ms, seed=6, events=str(folder / "json.yml"), live=40, rate=8, duration="60s", dirt=0.3)
    files = sorted(staging.glob("*/*.json"), key=place_in_evening)
    return [
        (file.parent.name, file.stat().st_mtime_ns // 1_000_000, line)
        for file in files
        for line in lines_of(file.read_bytes())
    ]


def test_an_evening_of_avro_is_that_of_the_second_implementation(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker, SchemaRegistry() as registry:
        broker.create_topics(dict.fromkeys(STREAMS, PARTITIONS))
        (tmp_path / "avro.yml").write_text(map_text(registry.url))
        settings = settings_of(
            SessionizeSettings,
            source="kafka", bootstrap_servers=broker.bootstrap_servers, events=str(tmp_path / "avro.yml"), mlflow="off",
            warehouse=tmp_path / "warehouse", checkpoints=tmp_path / "checkpoints", device_groups=GROUPS,
            heartbeat="2s", session_timeout="1h", late_retention="1h", archive_every="2s", rollup_every="2s",
        )  # fmt: skip
        topics = Topics(broker.bootstrap_servers, PARTITIONS, STREAMS)
        registry.add(FIRST, SCHEMAS[FIRST])
        messages = evening(tmp_path)
        at = place_of_pause(messages)
        produce(broker, messages[:at], FIRST)
        refused_while_the_registry_is_away(settings, registry)
        with job_running(settings) as job:
            wait_until_read(job, settings, topics)
            registry.stop()
            broken = [frame(8, b"\2\2"), frame(FIRST, b""), b"\0\0\0", frame(SECOND, b"\xff" * 20)]
            produce_broken(broker, broken[:1], messages[0][1])
            wait_until_blocked(job, settings, topics)
            produce_broken(broker, broken[1:], messages[0][1])
            produce(broker, messages[at:], SECOND)
            registry.add(SECOND, SCHEMAS[SECOND])
            registry.start()
            wait_until_read(job, settings, topics)
        events = content(registry.url)
        with topics.records() as records:
            oracle = build_oracle(tmp_path / "checkpoints", RULES, records, groups=GROUPS, events=events)
        tables = read_tables(tmp_path / "warehouse")
        assert differences(oracle, tables, tmp_path / "checkpoints") == []
        assert unaccounted(tables, pending_ends(oracle), events) == []
        quarantined = {row["value"]: row["reason"] for row in tables["quarantine"]}
        assert {message: quarantined[message] for message in broken} == dict.fromkeys(broken, "malformed_json")
        framed_values = [row["value"] for row in tables["raw_events"] if (row["value"] or b"").startswith(b"\0")]
        assert len(framed_values) > 0.8 * len(messages)
        assert {int.from_bytes(value[1:5], "big") for value in framed_values} >= {FIRST, SECOND}

        preflight_says_what_the_map_understands(spark, settings)
        the_archive_gives_the_same_sessions(settings)


def place_of_pause(messages: list[tuple[str, int, bytes]]) -> int:
    """The place of the first message of the second half that came later than the one before it.

    A backfill finds the micro-batch of a message by the time of its arrival. So each half is one micro-batch, and
    messages of one millisecond are in the same half.
    """
    times = [at_ms for _, at_ms, _ in messages]
    return next(at for at in range(len(times) // 2, len(times)) if times[at - 1] < times[at])


def produce(broker: Broker, messages: list[tuple[str, int, bytes]], schema_id: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for stream, at_ms, line in messages:
        producer.produce(stream, framed(line, schema_id), key=str(len(line)), timestamp=at_ms)
    assert producer.flush(30) == 0


def produce_broken(broker: Broker, broken: list[bytes], at_ms: int) -> None:
    """Send what cannot be decoded: with a schema that the registry lacks, without a value, with half a frame."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in broken:
        producer.produce("halls", value, timestamp=at_ms)
    assert producer.flush(30) == 0


def refused_while_the_registry_is_away(settings: SessionizeSettings, registry: SchemaRegistry) -> None:
    registry.stop()
    with (
        pytest.raises(ConfigurationError, match=f"^schema_registry {registry.url} does not answer"),
        job_running(settings) as job,
    ):
        job.future.result(60)
    assert not (settings.state.checkpoints.parent / "warehouse" / "session_changes").exists()
    registry.start()


def wait_until_read(job: RunningJob, settings: SessionizeSettings, topics: Topics) -> None:
    ends = topics.ends()
    queries = [settings.state.checkpoints / name for name in ("sessionize", "archive")]
    job.wait_for(lambda: all(committed_offsets(query) == ends for query in queries), "all input is read")


def wait_until_blocked(job: RunningJob, settings: SessionizeSettings, topics: Topics) -> None:
    """Wait until the micro-batch has started that needs a schema which only the registry has.

    It has one message: each of the two queries waits for the registry in one task, and the engine runs two at a time.
    """
    ends, query = topics.ends(), settings.state.checkpoints / "sessionize"
    job.wait_for(lambda: started_offsets(query) == ends, "the last messages are in a micro-batch")
    assert committed_offsets(query) != ends


def preflight_says_what_the_map_understands(spark: SparkSession, settings: SessionizeSettings) -> None:
    lines: list[str] = []
    assert " are events" in check_messages(spark, settings, lines.append)
    assert lines[0] == "         messages: no schema that can be read has the id 8"


def the_archive_gives_the_same_sessions(settings: SessionizeSettings) -> None:
    lines: list[str] = []
    places = {"warehouse": settings.tables.warehouse, "checkpoints": settings.state.checkpoints}
    backfill(settings_of(BackfillSettings, places, verify=True), lines.append)
    assert lines[-1].endswith(" sessions, all the same"), lines
