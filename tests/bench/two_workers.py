"""Hold live sessions on two workers over HDFS and on one machine, in turn: `python -m tests.bench.two_workers`.

Both keep the operator's state and append to `session_changes`. The CPU of the two workers includes that of their
master and of HDFS. Under spark-submit this module runs the scenario of a file at a URI.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from sessionization.hadoop_path import HadoopPath
from sessionization.spark.checkpoint.state_layout import device_groups_for
from sessionization.spark.engine.session import is_callers_session, spark_session
from sessionization_laptop.engine.java import java_home
from tests.bench import processes
from tests.bench.jobs import say
from tests.bench.measure import RECENT_TICKS, run_scenario
from tests.bench.scenario import LONG_LIVED, LONG_LIVED_JAVA_OPTIONS, Result, Scenario
from tests.support.cluster import CONF, Cluster
from tests.support.hdfs import Hdfs
from tests.support.job import ROOT, SPARK

_MEMORY_MB = 4_096
_CONF = {
    **LONG_LIVED,
    **CONF,
    "spark.sql.streaming.numRecentProgressUpdates": str(RECENT_TICKS),
    "spark.ui.enabled": "false",
}
_SHOWN = (
    "changes_per_s", "tick_p50_ms", "tick_max_ms", "lateness_p50_ms", "lateness_p99_ms", "missed_percent", "cores",
    "cpu_s_per_million_changes", "cpu_s_per_million_changes_python", "peak_mb", "state_rows",
)  # fmt: skip


def main() -> int:
    if is_callers_session():
        _run_submitted(Path(sys.argv[1]), sys.argv[2])
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.bench.two_workers", description=__doc__)
    parser.add_argument("--live", type=int, default=400_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--warm-up-s", type=int, default=180)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", default="", help="measure only the place that has this text in its name")
    options = parser.parse_args()
    groups = str(device_groups_for(options.live))
    seconds = round(options.minutes * 60)
    scenario = Scenario("mix", groups, options.live, "delta", warm_up_s=options.warm_up_s, seconds=seconds, heap="6g")
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    for _ in range(options.repeats):
        for place, command in _PLACES.items():
            if options.only not in place:
                continue
            with tempfile.TemporaryDirectory(prefix="two-workers-", ignore_cleanup_errors=True) as folder:
                file = Path(folder, "scenario.json")
                file.write_text(json.dumps(asdict(scenario)), encoding="utf-8")
                with command(file) as (words, environment):
                    figures = _run(words, environment).figures()
            shown = ", ".join(f"{name} {figures[name]:,.2f}" for name in _SHOWN if name in figures)
            say(f"{place}: {scenario.name}: {shown}")
    return 0


def _run(words: Sequence[str], environment: dict[str, str]) -> Result:
    common = {"PYTHONPATH": os.pathsep.join((str(ROOT / "lib"), str(ROOT))), processes.ROOT_PID: str(os.getpid())}
    done = subprocess.run(
        words, cwd=ROOT, env=os.environ | common | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return Result(**json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def _local(file: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    yield [sys.executable, "-m", "tests.bench.run", str(file)], {}


@contextmanager
def _submitted(file: Path) -> Iterator[tuple[list[str], dict[str, str]]]:
    with (
        Cluster(file.parent / "machines", memory_mb=_MEMORY_MB, java_options=LONG_LIVED_JAVA_OPTIONS) as cluster,
        Hdfs(file.parent / "hdfs") as hdfs,
    ):
        settings = [f"--conf={name}={value}" for name, value in _CONF.items()]
        words = [
            *(str(SPARK / "bin" / "spark-submit"), *cluster.submit_options(), *settings, "--driver-memory=3g"),
            *("--driver-java-options=-Xss4m", str(Path(__file__)), str(file), hdfs.uri),
        ]
        yield (
            words,
            {
                "PYSPARK_PYTHON": sys.executable,
                "JAVA_HOME": str(java_home()),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONSAFEPATH": "1",  # this file's folder has modules with the names of Python's own
            },
        )


_PLACES = {"one machine": _local, "two workers over HDFS": _submitted}


def _run_submitted(file: Path, storage: str) -> None:
    scenario = Scenario(**json.loads(file.read_text(encoding="utf-8")))
    result = run_scenario(spark_session(file.with_name("unused.log")), scenario, HadoopPath(f"{storage}/bench"))
    sys.stdout.write(f"{json.dumps(asdict(result))}\n")


if __name__ == "__main__":
    sys.exit(main())
