"""From Kafka to the tables with real producer, broker, job: undisturbed, and while leaders change and brokers die."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from sessionization_laptop.broker import Broker
from sessionization_laptop.server_process import free_ports
from tests.support import checkpoints
from tests.support.default_streams import STREAMS
from tests.support.harness import differences_of_job
from tests.support.job import Job
from tests.support.kafka_evening import GROUPS, OPTIONS, PARTITIONS, RULES, simulator
from tests.support.metrics_endpoint import free_port, serves
from tests.support.oracle import Oracle, build_oracle
from tests.support.prometheus_files import served_names
from tests.support.tables import Tables, differences, read_tables
from tests.support.topics import Topics

TEN_MEGABYTES = 10 * 1024 * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys(STREAMS, PARTITIONS), max_message_bytes=str(TEN_MEGABYTES + 1_000))
        yield broker


@dataclass(frozen=True)
class Run:
    """The tables of a job, which has served every metric, and the oracle's."""

    job: Job
    oracle: Oracle
    tables: Tables


@pytest.fixture(scope="module")
def run(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Run:
    topics = Topics(broker.bootstrap_servers, PARTITIONS)
    port = free_port()
    job = Job(tmp_path_factory.mktemp("kafka"), *OPTIONS, f"--metrics-port={port}", topics=topics)
    sessionize = job.checkpoints / "sessionize"
    with job:
        with simulator(broker):
            job.start()
            job.wait_until(lambda: checkpoints.last_committed(sessionize) >= 1, "micro-batches", poll_s=0.1)
        _produce_broken(broker)
        job.wait_until_done()
        job.wait_until(lambda: serves(port, served_names()), "every metric has a value", poll_s=0.5)
        assert job.terminate() == 0
    with topics.records() as records:
        oracle = build_oracle(job.checkpoints, RULES, records, groups=GROUPS)
        return Run(job, oracle, read_tables(job.warehouse))


def _produce_broken(broker: Broker) -> None:
    """Produce records that the simulator does not send: without a value, empty, broken and far too large."""
    options = {"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": TEN_MEGABYTES + 1_000}
    producer = Producer(options)
    for value in (None, b"", b"\xff", b'{"appSessionId":1', b"x" * TEN_MEGABYTES):
        producer.produce("pc_sessions", value, key=b"broken")
    assert producer.flush(30) == 0


@pytest.mark.job
def test_tables_state_and_timers_equal_the_reference_and_every_message_is_accounted_for(
    run: Run, spark: SparkSession
) -> None:
    assert differences_of_job(run.job, run.oracle, run.tables, spark) == []


@pytest.mark.job
def test_every_record_is_archived_once_with_its_position(run: Run) -> None:
    archived = Counter((row["stream"], row["partition"], row["offset"]) for row in run.tables["raw_events"])
    ends = run.job.topics.ends()
    assert archived == Counter((*partition, offset) for partition, end in ends.items() for offset in range(end))
    assert min(ends.values()) > 0
    assert {row["file"] for row in run.tables["raw_events"]} == {None}


@pytest.mark.job
def test_broken_records_are_in_quarantine_unchanged(run: Run) -> None:
    quarantined = Counter((row["reason"], row["value"]) for row in run.tables["quarantine"])
    for value in (None, b"", b"\xff", b'{"appSessionId":1'):
        assert quarantined["malformed_json", value] == 1
    assert quarantined["oversized", b"x" * TEN_MEGABYTES] == 1


@pytest.mark.job
def test_no_micro_batch_reads_more_than_max_offsets_per_trigger(run: Run) -> None:
    rows_in = [row["rows_in"] for row in run.tables["stream_progress"] if row["query"] == "sessionize"]
    assert 0 < max(rows_in) <= 500


SHORT_PATIENCE = ("--kafka-option=kafka.default.api.timeout.ms=8000", "--kafka-option=kafka.request.timeout.ms=4000")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """Two brokers; the first is the controller too, so the second can be killed without losing the cluster."""
    with Broker(tmp_path / "first") as first:
        settings = (tmp_path / "first" / "server.properties").read_text(encoding="utf-8").splitlines()
        [voters] = [line.partition("=")[2] for line in settings if line.startswith("controller.quorum.voters=")]
        address = f"BROKER://127.0.0.1:{free_ports(1)[0]}"
        second = {"process.roles": "broker", "node.id": "2", "controller.quorum.voters": voters}
        with Broker(tmp_path / "second", second | {"listeners": address, "advertised.listeners": address}) as second:
            admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
            for created in admin.create_topics([NewTopic(topic, PARTITIONS, 2) for topic in STREAMS]).values():
                created.result(30)
            yield first, second


def leaders(admin: AdminClient) -> set[int]:
    topics = admin.list_topics(timeout=20).topics
    return {partition.leader for topic in STREAMS for partition in topics[topic].partitions.values()}


@pytest.mark.job
@pytest.mark.long
def test_a_change_of_leaders_and_a_restart_of_the_brokers_never_ask_for_a_new_checkpoint(
    brokers: tuple[Broker, Broker], tmp_path: Path
) -> None:
    first, second = brokers
    admin = AdminClient({"bootstrap.servers": first.bootstrap_servers, "log_level": 0})
    topics = Topics(first.bootstrap_servers, PARTITIONS)
    job = Job(tmp_path / "job", *OPTIONS, *SHORT_PATIENCE, topics=topics)
    sessionize = job.checkpoints / "sessionize"

    def wait_for_micro_batches_with_input() -> None:
        before, ends = checkpoints.last_committed(sessionize), topics.ends()
        job.wait_until(lambda: checkpoints.last_committed(sessionize) > before + 1, "micro-batches", poll_s=0.1)
        job.wait_until(lambda: topics.ends() != ends, "more input", poll_s=0.5)

    with job:
        with simulator(first):
            job.start()
            wait_for_micro_batches_with_input()
            assert leaders(admin) == {1, 2}
            second.kill()
            job.wait_until(lambda: leaders(admin) == {1}, "the first broker leads", poll_s=0.2)
            wait_for_micro_batches_with_input()
            second.start()

            def both_lead() -> bool:
                admin.elect_leaders(ElectionType.PREFERRED).result(20)
                return leaders(admin) == {1, 2}

            job.wait_until(both_lead, "both brokers lead", poll_s=0.5)
            job.wait_for_running_micro_batch()
            job.kill()
            job.start()
            wait_for_micro_batches_with_input()
        second.stop()
        first.stop()
        assert job.wait_for_end(within_s=240) == 1
        assert "start again with the same options" in job.output_lines()[-1]
        first.start()
        second.start()
        with simulator(first):
            job.start()
            wait_for_micro_batches_with_input()
        job.wait_until_done()
        assert job.terminate() == 0
    said = "\n".join(job.output_lines())
    assert "new checkpoint" not in said
    assert "new tables" not in said
    with topics.records() as records:
        oracle = build_oracle(job.checkpoints, RULES, records, groups=GROUPS)
    assert differences(oracle, read_tables(job.warehouse), job.checkpoints) == []
