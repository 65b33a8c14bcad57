"""A broker with a password: simulator and job work with the right one, and the job reports a wrong one."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.cimpl import TopicPartition

from sessionization.local.broker import Broker
from sessionization.streams import STREAMS
from tests.whole_job.job import ROOT, SIMULATE, run_to_end
from tests.whole_job.tables import read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

PASSWORD = "correct horse"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BROKER_OPTIONS = {
    "listener.security.protocol.map": "BROKER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.broker.plain.sasl.jaas.config": (
        f'{PLAIN} username="broker" password="battery" user_broker="battery" user_studio="{PASSWORD}";'
    ),
}
CLIENT_OPTIONS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "studio"}


def options(prefix: str, given: dict[str, str]) -> list[str]:
    return [f"--kafka-option={prefix}{name}={value}" for name, value in given.items()]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with messages in both topics, which the simulator has sent."""
    with Broker(tmp_path_factory.mktemp("broker"), BROKER_OPTIONS) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(servers | CLIENT_OPTIONS | {"sasl.password": PASSWORD})
        for created in admin.create_topics([NewTopic(topic, 1, replication_factor=1) for topic in STREAMS]).values():
            created.result(30)
        simulator = [sys.executable, str(SIMULATE), "--sink=kafka"]
        evening = ["--live=20", "--rate=20", "--dirt=0", "--duration=15s"]
        variables = {"PYTHONPATH": str(ROOT / "lib"), "STUDIO_PASSWORD": PASSWORD}
        subprocess.run(
            [
                *simulator,
                f"--bootstrap-servers={broker.bootstrap_servers}",
                *evening,
                *options("", CLIENT_OPTIONS | {"sasl.password": "env:STUDIO_PASSWORD"}),
            ],
            env=os.environ | variables,
            check=True,
        )
        yield broker


def ends(broker: Broker) -> dict[str, int]:
    """The number of messages in each topic."""
    servers = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "tests"}
    consumer = Consumer(servers | CLIENT_OPTIONS | {"sasl.password": PASSWORD})
    try:
        return {topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)[1] for topic in STREAMS}
    finally:
        consumer.close()


@pytest.fixture
def kafka_options() -> list[str]:
    client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "env:STUDIO_JAAS"}
    return options("kafka.", client)


def jaas(password: str) -> str:
    return f'{PLAIN} username="studio" password="{password}";'


def folders(folder: Path) -> list[str]:
    return [f"--warehouse={folder / 'warehouse'}", f"--checkpoints={folder / 'checkpoints'}"]


def test_the_right_password_lets_the_job_read_everything(
    broker: Broker, kafka_options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_JAAS", jaas(PASSWORD))
    source = ("--source=kafka", f"--bootstrap-servers={broker.bootstrap_servers}", *kafka_options, "--run-for=30s")
    ended = run_to_end(*source, *folders(tmp_path), cwd=tmp_path)
    assert ended.code == 0, ended.lines[-3:]
    archived = Counter(row["stream"] for row in read_tables(tmp_path / "warehouse")["raw_events"])
    assert archived == ends(broker)
    assert min(archived.values()) > 0
    everything = (path for path in tmp_path.rglob("*") if path.is_file())
    assert [path for path in everything if PASSWORD.encode() in path.read_bytes()] == []


def test_a_wrong_password_gives_one_line_that_names_the_option(
    broker: Broker, kafka_options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STUDIO_JAAS", jaas("wrong"))
    source = ("--source=kafka", f"--bootstrap-servers={broker.bootstrap_servers}", *kafka_options)
    ended = run_to_end(*source, *folders(tmp_path), cwd=tmp_path)
    assert ended.code == 2
    assert "does not let this job read pc_sessions: check the --kafka-option values" in ended.lines[-1]
