"""Changes go through Kafka and both jobs are killed: the tables equal those of changes appended directly."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessionization.core.session_state import Rules
from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization_laptop.broker import Broker
from tests.support import checkpoints
from tests.support.default_streams import STREAMS
from tests.support.job import ROOT, Job
from tests.support.kafka_evening import PARTITIONS, simulator
from tests.support.oracle import build_oracle
from tests.support.tables import differences, read_tables
from tests.support.topics import Topics
from tests.support.volume import VolumeJob

pytestmark = [pytest.mark.job, pytest.mark.long]

RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=3_600_000, late_retention_ms=3_600_000)
GROUPS = 8
OPTIONS = (
    "--heartbeat=2s", "--session-timeout=1h", "--late-retention=1h", f"--device-groups={GROUPS}", "--sink=kafka",
)  # fmt: skip


class Landing(Job):
    """The land_changes job that runs next to a sessionize job, on its tables."""

    def __init__(self, job: Job, broker: Broker) -> None:
        super().__init__(job.checkpoints.parent / "landing", entry=(ROOT / "jobs" / "land_changes.py",))
        self.warehouse, self.library, self.variables = job.warehouse, job.library, job.variables
        self._servers = broker.bootstrap_servers

    def place_options(self) -> tuple[str, ...]:
        folders = (*self.table_options(), "--checkpoints", str(self.checkpoints))
        return (*folders, "--bootstrap-servers", self._servers)

    def wait_until_all_has_landed(self) -> None:
        """Wait until all changes in the topic are in the table."""
        ends = Topics(self._servers, PARTITIONS, (OUTPUT_TOPIC,)).ends()

        def have_landed() -> bool:
            landed = checkpoints.committed_offsets(self.checkpoints / "land_changes")
            return all(landed.get(partition, 0) >= end for partition, end in ends.items())

        self.wait_until(have_landed, "the end of the topic", poll_s=0.2)


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
    landing = Landing(job, broker)
    sessionize = job.checkpoints / "sessionize"

    def wait_for_micro_batches(count: int) -> None:
        before = checkpoints.last_committed(sessionize)
        job.wait_until(lambda: checkpoints.last_committed(sessionize) >= before + count, "micro-batches")

    with job, landing:
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
        landing.wait_until_all_has_landed()
        job.start()  # rollup merges the remaining landed changes
        wait_for_micro_batches(1)
        job.wait_until_done()
        assert job.terminate() == 0
        landing.wait_until_all_has_landed()
        assert landing.terminate() == 0
    with job.topics.records() as records:  # type: ignore[union-attr]
        oracle = build_oracle(job.checkpoints, RULES, records, groups=GROUPS)
    assert differences(oracle, read_tables(job.warehouse), job.checkpoints) == []
