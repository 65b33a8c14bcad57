"""Changes go through Kafka and both jobs are killed: the tables equal those of changes appended directly."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionization.core.session_state import Rules
from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization_laptop.broker import Broker
from tests.support import checkpoints
from tests.support.default_streams import STREAMS
from tests.support.job import ROOT, Job, command, environment
from tests.support.kafka_evening import PARTITIONS, simulator
from tests.support.oracle import build_oracle
from tests.support.tables import differences, read_tables
from tests.support.topics import Topics
from tests.support.volume import VolumeJob
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.job, pytest.mark.long]

RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=3_600_000, late_retention_ms=3_600_000)
GROUPS = 8
OPTIONS = (
    "--heartbeat=2s", "--session-timeout=1h", "--late-retention=1h", f"--device-groups={GROUPS}", "--sink=kafka",
)  # fmt: skip


class Landing:
    """The land_changes job that runs next to a sessionize job."""

    def __init__(self, job: Job, folder: Path, servers: str) -> None:
        self.checkpoints = folder / "checkpoints"
        self._job, self._servers = job, servers
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        folders = ("--warehouse", str(self._job.warehouse), "--checkpoints", str(self.checkpoints))
        words = command(*folders, "--bootstrap-servers", self._servers, entry=(ROOT / "jobs" / "land_changes.py",))
        variables = environment(PYTHONPATH=str(self._job.library), **self._job.variables)
        self._process = subprocess.Popen(words, env=variables, stdin=subprocess.DEVNULL, start_new_session=True)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(60)
        self._process = None
        return code

    def has_landed_everything(self) -> bool:
        """Whether all changes in the topic are in the table."""
        assert self._process is not None
        assert self._process.poll() is None
        ends = Topics(self._servers, PARTITIONS, (OUTPUT_TOPIC,)).ends()
        landed = checkpoints.committed_offsets(self.checkpoints / "land_changes")
        return all(landed.get(partition, 0) >= end for partition, end in ends.items())


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        broker.create_topics(dict.fromkeys((*STREAMS, OUTPUT_TOPIC), PARTITIONS))
        yield broker


@pytest.mark.parametrize("kind", [Job, VolumeJob])
def test_tables_equal_the_reference_if_changes_go_through_the_topic(
    kind: type[Job], broker: Broker, tmp_path: Path
) -> None:
    job = kind(tmp_path, *OPTIONS, topics=Topics(broker.bootstrap_servers, PARTITIONS))
    landing = Landing(job, job.checkpoints.parent / "landing", broker.bootstrap_servers)
    sessionize = job.checkpoints / "sessionize"

    def wait_for_micro_batches(count: int) -> None:
        before = checkpoints.last_committed(sessionize)
        job.wait_until(lambda: checkpoints.last_committed(sessionize) >= before + count, "micro-batches")

    try:
        with simulator(broker):
            job.start()
            wait_for_micro_batches(2)
            landing.start()
            job.wait_until(lambda: checkpoints.last_started(landing.checkpoints / "land_changes") >= 0, "a landing")
            landing.kill()
            newest = checkpoints.last_started(sessionize)
            job.wait_until(lambda: checkpoints.last_started(sessionize) > newest, "a micro-batch begins")
            job.kill()
            job.start()
            landing.start()
            wait_for_micro_batches(2)
        job.wait_until_done()
        assert job.terminate() == 0
        wait_for(landing.has_landed_everything, "the end of the topic")
        job.start()  # rollup merges the remaining landed changes
        wait_for_micro_batches(1)
        job.wait_until_done()
        assert job.terminate() == 0
        wait_for(landing.has_landed_everything, "the end of the topic")
        assert landing.terminate() == 0
    finally:
        job.kill_if_running()
        landing.kill()
    with job.topics.records() as records:  # type: ignore[union-attr]
        oracle = build_oracle(job.checkpoints, RULES, records, groups=GROUPS)
    assert differences(oracle, read_tables(job.warehouse), job.checkpoints) == []
