"""A Spark cluster on this machine: a master and workers; each worker is a process with its own executors."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from sessionization_laptop.engine.jars import JarSet, jar_paths
from sessionization_laptop.engine.java import java_home
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from tests.support.daemons import LoggingDaemons
from tests.support.job import SPARK, environment

CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.log.level": "WARN",
}
"""Settings of Spark for a job on two workers with one core each."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = re.compile("Successfully registered with master")
_MEMORY_MB = 1_024
"""Of a worker, and of its executor."""


class Cluster(LoggingDaemons):
    """Standalone Spark on 127.0.0.1: a master, and two workers with one core each. All end with this process."""

    url: str

    def submit_options(self, *jar_sets: JarSet) -> tuple[str, ...]:
        """The options of spark-submit for a job that runs on this cluster; `jar_sets` are more jars than `spark`."""
        jars = ",".join(str(jar) for jar_set in ("spark", *jar_sets) for jar in jar_paths(jar_set))
        return (f"--master={self.url}", f"--executor-memory={_MEMORY_MB}m", f"--jars={jars}")

    def executors(self) -> dict[int, int]:
        """The process ids of the live executors, each with the process id of its worker."""
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid=,args=", "-ww"], stdout=subprocess.PIPE, text=True, check=True
        )
        rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
        workers = {process.pid for process in self._processes}
        return {int(row[0]): int(row[1]) for row in rows if _EXECUTOR in row[-1] and int(row[1]) in workers}

    def kill_executor(self) -> int:
        """SIGKILL one executor, as the kernel does when memory runs out, and return its process id."""
        pid = min(self.executors())
        os.kill(pid, signal.SIGKILL)
        return pid

    def kill_worker(self) -> list[int]:
        """SIGKILL a worker and its executors, as a lost machine would, and return the executors' process ids."""
        worker = self._processes[-1]
        lost = [pid for pid, parent in self.executors().items() if parent == worker.pid]
        self._processes.remove(worker)
        worker.kill()
        _kill(lost)
        worker.wait()
        return lost

    def stop(self) -> None:
        """Kill the master, the workers and their executors."""
        executors = self.executors()
        super().stop()
        _kill(executors)

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        ports = ("--port", "0", "--webui-port", "0")
        log, master = self._launch_node("master", "org.apache.spark.deploy.master.Master", *ports)
        self.url = self._found(_MASTER_AT, master, log)[1]
        for number in range(2):
            size = ("--cores", "1", "--memory", f"{_MEMORY_MB}m")
            where = ("--work-dir", str(self._folder / f"worker-{number}"), "--webui-port", "0")
            log, worker = self._launch_node(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *size, *where, self.url
            )
            self._found(_REGISTERED, worker, log)

    def _launch_node(self, name: str, main_class: str, *arguments: str) -> tuple[Path, subprocess.Popen[bytes]]:
        spark = {
            "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM_OPTIONS,
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_MASTER_HOST": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        # The executors, children of the workers, import the operator from the folder in `PYTHONPATH`.
        words = [str(SPARK / "bin" / "spark-class"), main_class, "--host", "127.0.0.1", *arguments]
        return self._launch(name, words, environment(**spark))


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
