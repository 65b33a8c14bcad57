"""The job `land_changes` beside a job that sends its changes to a topic."""

import os
import signal
import subprocess
from pathlib import Path

from sessionization.settings.kafka_options import OUTPUT_TOPIC
from tests.support import checkpoints
from tests.support.job import ROOT, Job, command, environment
from tests.support.kafka_evening import PARTITIONS
from tests.support.topics import Topics


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
