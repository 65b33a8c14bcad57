"""Run one scenario in a local Spark session of this process: `python -m tests.bench.run FILE [name=value ...]`.

Prints a line when the measurement begins, and the result as JSON in the last line.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from sessionization.spark.engine.job_conf import OPEN_SOURCE_CONF
from sessionization_laptop.engine.jars import jar_paths
from sessionization_laptop.engine.local_session import local_session
from tests.bench.measure import RECENT_TICKS, run_scenario
from tests.bench.scenario import LONG_LIVED, LONG_LIVED_JAVA_OPTIONS, YARDSTICK, Scenario

_YARDSTICK = Path(__file__).with_name("Yardstick.java")
_MB = 1024 * 1024


def main() -> int:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", LONG_LIVED_JAVA_OPTIONS)
    fields = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    scenario = Scenario(**fields | {"labels": tuple(fields["labels"])})
    # The engine may still write into the folder after the result.
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        spark = _session(scenario, Path(folder), dict(setting.split("=", 1) for setting in sys.argv[2:]))
        result = run_scenario(spark, scenario, Path(folder))
        result.checkpoint_mb = _size_mb(Path(folder, "checkpoint"))
        sys.stdout.write(f"{json.dumps(asdict(result))}\n")
    return 0


def _session(scenario: Scenario, folder: Path, conf: dict[str, str]) -> SparkSession:
    """A session whose class path has the yardstick, if the scenario needs it."""
    class_path = list(map(str, jar_paths("spark")))
    if scenario.layout == YARDSTICK:
        class_path.append(str(_compiled(folder / "classes")))
    settings = LONG_LIVED | {
        "spark.driver.extraClassPath": os.pathsep.join(class_path),
        "spark.driver.memory": scenario.heap,
        "spark.sql.streaming.numRecentProgressUpdates": RECENT_TICKS,
    }
    options = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{options} pyspark-shell"
    return local_session(folder / "engine.log", OPEN_SOURCE_CONF | conf)


def _compiled(classes: Path) -> Path:
    jars = Path(pyspark.__file__).parent / "jars"
    try:
        subprocess.run(
            ["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(_YARDSTICK)], check=True
        )
    except FileNotFoundError:
        msg = "the yardstick needs javac on the PATH: install a JDK, version 17 or 21"
        raise SystemExit(msg) from None
    return classes


def _size_mb(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / _MB


if __name__ == "__main__":
    sys.exit(main())
