"""A local Spark session with Delta, quiet on the terminal and deaf to the signals that stop a job."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.java_gateway import java_import
from pyspark import java_gateway
from pyspark.sql import SparkSession

from sessionization.local_engine.jars import jar_paths
from sessionization.local_engine.java import java_home
from sessionization.stop_signals import preserve_interrupt_handler

SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""`JAVA_TOOL_OPTIONS` for a run of a minute: the optimising compiler would not pay off on a few cores.

Without the second option the JVM reserves too little for compiled code, throws Spark's away, and compiles it again.
The third one takes the garbage collector that costs least on few cores: 10 to 20 % less CPU time until the first MERGE.
"""


def local_session(log_file: Path, conf: dict[str, str]) -> SparkSession:
    """Start Spark in this process's own JVM with `conf` on top of what a laptop needs.

    What only a laptop needs may be set otherwise in `PYSPARK_SUBMIT_ARGS` (`--conf name=value pyspark-shell`); `conf` not.

    Args:
        log_file: where the engine's messages go, rolled at 10 MB.
        conf: Spark settings by name.
    """
    log_file.parent.mkdir(parents=True, exist_ok=True)
    jars = os.pathsep.join(str(path) for path in jar_paths("spark"))
    log4j = Path(str(files("sessionization.local_engine") / "log4j2.properties")).as_uri()
    # Spark matches a failure's text with a regular expression that recurses: give it the stack for a long one.
    java_options = f'-Xss4m "-Dlog4j2.configurationFile={log4j}" "-Dsessionization.log={log_file.absolute()}"'
    settings = {
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": java_options,
        # Otherwise Spark makes it in the working folder at the first name of a table without a path.
        "spark.sql.warehouse.dir": str(log_file.absolute().with_name("spark-warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # A laptop's table logs are small: one task per core reads them faster than Delta's default of 50.
        "spark.databricks.delta.snapshotPartitions": "2",
        # VACUUM would list the files of every table in 10,000 tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # Compaction leaves files of this size alone: with the default of 1 GB it would write nearly all rows every time.
        "spark.databricks.delta.optimize.minFileSize": str(32 * 1024 * 1024),
        "spark.databricks.delta.optimize.maxFileSize": str(64 * 1024 * 1024),
        # A laptop's micro-batches are small: generating and compiling code for them takes longer than running them.
        "spark.sql.codegen.wholeStage": "false",
        # Where it is generated after all, as in a long run: by default Spark compiles most of it anew every time.
        "spark.sql.codegen.cache.maxEntries": "5000",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Adaptive execution plans a query again after each stage: that is a sixth of the time of a small MERGE.
        "spark.sql.adaptive.enabled": "false",
        # PySpark tells the JVM which line of Python makes each column: five more calls a column. Errors lack that line.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    # Spark starts its Python workers, and finds Java, through these.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_HOME"] = str(java_home())
    for engine_logger in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(engine_logger).setLevel(logging.CRITICAL + 1)
    builder = SparkSession.builder.appName("sessionize")
    given = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    settings = {name: value for name, value in settings.items() if f" {name}=" not in given} | conf
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _engine_set_apart(log_file.with_suffix(".out")), preserve_interrupt_handler():
        spark = builder.getOrCreate()
    # PySpark looks this class up all the time: unless it is imported by name, the JVM searches eight packages for it.
    if (jvm := getattr(spark, "_jvm", None)) is not None:
        java_import(jvm, "org.apache.spark.api.python.PythonUtils")
    return spark


@contextmanager
def _engine_set_apart(output: Path) -> Iterator[None]:
    """Start the JVM with its output in a file and deaf to SIGTERM and SIGINT.

    A signal to the whole process group (Ctrl-C, a service manager) would otherwise end the engine while this process
    is still stopping the queries. This process itself goes on hearing them.
    """
    popen = subprocess.Popen

    def deaf() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    with output.open("ab") as file:

        def start(*args: Any, **kwargs: Any) -> Any:
            # It inherits the checkpoint's lock: as long as it lives, no other job may begin.
            return popen(*args, **kwargs | {"preexec_fn": deaf, "close_fds": False, "stdout": file, "stderr": file})

        setattr(java_gateway, "Popen", start)  # noqa: B010 - PySpark offers no other way to the child's signals
        try:
            yield
        finally:
            setattr(java_gateway, "Popen", popen)  # noqa: B010
