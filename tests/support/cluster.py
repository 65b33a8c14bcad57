"""A Spark cluster on this machine: a master and workers; each worker is a process with its own executors."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sessionization_laptop.child_process import end_with_this_process
from sessionization_laptop.engine.jars import JarSet, jar_paths
from sessionization_laptop.engine.java import java_home
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from tests.support.daemons import Daemons
from tests.support.job import ROOT, SPARK

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.log.level": "WARN",
}
"""Settings of Spark for a job on two workers with one core each."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_READY_S = 120
_POLL_S = 0.05


class Cluster(Daemons):
    """Standalone Spark on 127.0.0.1: a master, and workers with one core each. All end with this process."""

    def __init__(
        self, folder: Path, workers: int = 2, memory_mb: int = 1_024, java_options: str = SHORT_LIVED_JVM_OPTIONS
    ) -> None:
        """Logs and the executors' files go below `folder`. `memory_mb` is that of a worker, and of its executor.

        `java_options` are those of the master, the workers and the executors.
        """
        self._folder, self._count, self._memory_mb, self._java_options = folder, workers, memory_mb, java_options
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def submit_options(self, *jar_sets: JarSet) -> tuple[str, ...]:
        """The options of spark-submit for a job that runs on this cluster; `jar_sets` are more jars than `spark`."""
        jars = ",".join(str(jar) for jar_set in ("spark", *jar_sets) for jar in jar_paths(jar_set))
        return (f"--master={self.url}", f"--executor-memory={self._memory_mb}m", f"--jars={jars}")

    def executors(self) -> dict[int, int]:
        """The process ids of the live executors, each with the process id of its worker."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,args=", "-ww"], stdout=subprocess.PIPE, text=True, check=True
        )
        rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
        workers = {worker.pid for worker in self._workers}
        return {int(row[0]): int(row[1]) for row in rows if _EXECUTOR in row[-1] and int(row[1]) in workers}

    def kill_executor(self) -> int:
        """SIGKILL one executor, as the kernel does when memory runs out, and return its process id."""
        pid = min(self.executors())
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill_worker(self) -> list[int]:
        """SIGKILL a worker and its executors, as a lost machine would, and return the executors' process ids."""
        worker = self._workers[-1]
        lost = [pid for pid, _ in self._executors_of(worker.pid)]
        self._workers.remove(worker)
        for pid in (worker.pid, *lost):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        worker.wait()
        return lost

    def stop(self) -> None:
        """Kill the master, the workers and their executors."""
        executors = [pid for worker in self._workers for pid, _ in self._executors_of(worker.pid)]
        for process in (*self._workers, *filter(None, [self._master])):
            process.kill()
            process.wait()
        for pid in executors:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._workers, self._master = [], None

    def _executors_of(self, worker: int) -> list[tuple[int, int]]:
        return [(pid, parent) for pid, parent in self.executors().items() if parent == worker]

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        log = self._folder / "master.log"
        self._master = _launch(
            log, self._java_options, "org.apache.spark.deploy.master.Master", "--port", "0", "--webui-port", "0"
        )
        _wait_for(self._master, log, lambda text: _MASTER_AT.search(text) is not None)
        found = _MASTER_AT.search(log.read_text(encoding="utf-8"))
        assert found is not None
        self.url = found[1]
        for number in range(self._count):
            log, work = self._folder / f"worker-{number}.log", self._folder / f"worker-{number}"
            size = ("--cores", "1", "--memory", f"{self._memory_mb}m")
            where = ("--work-dir", str(work), "--webui-port", "0")
            worker = _launch(log, self._java_options, "org.apache.spark.deploy.worker.Worker", *size, *where, self.url)
            self._workers.append(worker)
            _wait_for(worker, log, lambda text: _REGISTERED in text)


def _launch(log: Path, java_options: str, main_class: str, *arguments: str) -> subprocess.Popen[bytes]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    spark_environment = {
        "JAVA_TOOL_OPTIONS": java_options,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_MASTER_HOST": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "lib"),  # the executors, children of the workers, import the operator from there
    }
    with log.open("ab") as output:
        return subprocess.Popen(
            [str(SPARK / "bin" / "spark-class"), main_class, "--host", "127.0.0.1", *arguments],
            env=inherited | spark_environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=end_with_this_process(),  # noqa: PLW1509 - two system calls, no lock among them
        )


def _wait_for(process: subprocess.Popen[bytes], log: Path, is_ready: Callable[[str], bool]) -> None:
    deadline_s = time.monotonic() + _READY_S
    while not is_ready(log.read_text(encoding="utf-8", errors="replace")):
        assert process.poll() is None, f"it ended with code {process.poll()}: see {log}"
        assert time.monotonic() < deadline_s, f"it did not start within {_READY_S} s: see {log}"
        time.sleep(_POLL_S)
