"""Leaders of partitions change, brokers and the job are killed: the job goes on, or its end says to start again."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic

from sessionization.streams import STREAMS
from sessionization_laptop.broker import Broker, _free_ports
from tests.support import checkpoints
from tests.support.job import Job
from tests.support.kafka_evening import GROUPS, OPTIONS, PARTITIONS, RULES, simulator
from tests.support.oracle import build_oracle
from tests.support.tables import differences, read_tables
from tests.support.topics import Topics

pytestmark = [pytest.mark.job, pytest.mark.long]

SHORT_PATIENCE = ("--kafka-option=kafka.default.api.timeout.ms=8000", "--kafka-option=kafka.request.timeout.ms=4000")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[tuple[Broker, Broker]]:
    """Two brokers; the first is the controller too, so the second can be killed without losing the cluster."""
    with Broker(tmp_path / "first") as first:
        settings = (tmp_path / "first" / "server.properties").read_text(encoding="utf-8").splitlines()
        [voters] = [line.partition("=")[2] for line in settings if line.startswith("controller.quorum.voters=")]
        address = f"BROKER://127.0.0.1:{_free_ports()[0]}"
        second = {"process.roles": "broker", "node.id": "2", "controller.quorum.voters": voters}
        with Broker(tmp_path / "second", second | {"listeners": address, "advertised.listeners": address}) as second:
            admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
            for created in admin.create_topics([NewTopic(topic, PARTITIONS, 2) for topic in STREAMS]).values():
                created.result(30)
            yield first, second


def leaders(admin: AdminClient) -> set[int]:
    topics = admin.list_topics(timeout=20).topics
    return {partition.leader for topic in STREAMS for partition in topics[topic].partitions.values()}


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
