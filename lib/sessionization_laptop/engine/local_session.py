"""A local Spark session with Delta. Its JVM writes nothing to the terminal and ignores the signals that stop a job."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from py4j.java_gateway import java_import
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from sessionization.errors import SetupError
from sessionization.session_conf import COMPACTION_CONF
from sessionization.stop_signals import preserve_interrupt_handler
from sessionization_laptop.engine import ENGINE_FOLDER
from sessionization_laptop.engine.environment import own_environment
from sessionization_laptop.engine.jars import jar_paths

SHORT_LIVED_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""`JAVA_TOOL_OPTIONS` for a run of a minute: the optimising compiler would not pay off on a few cores.

Without the second option the JVM reserves too little memory for compiled code, discards Spark's code and compiles it
again. The third option selects the cheapest garbage collector on few cores: 10 to 20 % less CPU time until the first
MERGE.
"""

CLASS_ARCHIVE = ENGINE_FOLDER / "classes.jsa"
"""An archive of the classes that Spark and Delta load: a JVM starts with about a third less CPU time.

`make test` writes it; without it engines start as Java does. A JVM ignores an archive of another Java or of other jars.
"""
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Otherwise the JVM warns of each class that it cannot archive, and of an archive that it ignores."""

_LONGEST_SOCKET_FOLDER = 64
"""A socket's path has at most 107 bytes, and Spark's names for them have 42 and a slash."""
_PARTITIONS = "spark.sql.shuffle.partitions"


def local_session(log_file: Path, conf: dict[str, str]) -> SparkSession:
    """Start Spark in a JVM of this process, with `conf` in addition to the settings for a laptop.

    `PYSPARK_SUBMIT_ARGS` (`--conf name=value pyspark-shell`) overrides the settings for a laptop, but not `conf`. Other
    variables of Spark are left out of this process's environment (`own_environment`).

    Args:
        log_file: the file of the engine's messages, rolled at 10 MB.
        conf: Spark settings by name.

    Raises `SetupError` where this machine or its environment does not let the engine start.
    """
    own_environment()
    temporary = tempfile.gettempdir()  # Java alone would not ask TMPDIR
    log_file.parent.mkdir(parents=True, exist_ok=True)
    jars = os.pathsep.join(str(path) for path in jar_paths("spark"))
    log4j = Path(str(files("sessionization_laptop.engine") / "log4j2.properties")).as_uri()
    # Spark matches an error's text with a recursive regular expression, which needs a large stack for a long text.
    java_options = (
        f'-Xss4m "-Dlog4j2.configurationFile={log4j}" "-Dsessionization.log={log_file.absolute()}" '
        f'"-Djava.io.tmpdir={temporary}"'
    )
    if CLASS_ARCHIVE.is_file():
        java_options += f' "-XX:SharedArchiveFile={CLASS_ARCHIVE}" -Xshare:auto {SILENT}'
    settings = {
        "spark.master": "local[*]",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": java_options,
        # By default Spark creates this folder in the working folder at the first table name without a path.
        "spark.sql.warehouse.dir": str(log_file.absolute().with_name("spark-warehouse")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # A laptop's table logs are small: one task per core reads them faster than Delta's default of 50.
        "spark.databricks.delta.snapshotPartitions": "2",
        # By default VACUUM lists the files of every table in 10,000 tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        # For `maintain`; the compactions of a stream set them in any session.
        **COMPACTION_CONF,
        # A laptop's micro-batches are small: code generation and compilation would take longer than the work itself.
        "spark.sql.codegen.wholeStage": "false",
        # A long run still generates code. With the default cache Spark would compile most of it again every time.
        "spark.sql.codegen.cache.maxEntries": "5000",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Adaptive execution replans a query after each stage, which takes a sixth of the time of a small MERGE.
        "spark.sql.adaptive.enabled": "false",
        # Otherwise PySpark makes five more calls per column, to send its line of Python, which errors now lack.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.python.unix.domain.socket.enabled": str(len(os.fsencode(temporary)) <= _LONGEST_SOCKET_FOLDER).lower(),
        # The default one renames by Hadoop's FileContext, which starts eight processes `readlink` for each file.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # Otherwise the local disk is Hive's, whose rename replaces no file: that of a first attempt would stay.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    }
    given = names_of_settings(os.environ["PYSPARK_SUBMIT_ARGS"])
    settings = {name: value for name, value in settings.items() if name not in given} | conf
    with _isolated_engine(log_file.with_suffix(".out")), preserve_interrupt_handler():
        jvm = _start_jvm(settings, log_file.with_suffix(".out"))
        # Delta names its files, and reads the names, with the digits of the locale.
        jvm.java.util.Locale.setDefault(jvm.java.util.Locale.US)
        if _PARTITIONS not in given:  # Java counts the processors of the container and of the affinity
            cores = jvm.java.lang.Runtime.getRuntime().availableProcessors()
            settings = {_PARTITIONS: str(cores)} | settings
        spark = SparkSession.builder.appName("sessionize").config(map={**settings}).getOrCreate()
    # PySpark looks this class up very often. Without an import by name the JVM searches eight packages each time.
    java_import(jvm, "org.apache.spark.api.python.PythonUtils")
    return spark


def _start_jvm(settings: dict[str, str], output: Path) -> Any:
    """Start the JVM, unless this process has one already. Raises `SetupError` where it ends at once."""
    try:
        SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))  # noqa: SLF001 - not public
    except PySparkRuntimeError as error:
        msg = (
            f"Spark's Java has ended at its start: {output} says why at its end; PYSPARK_SUBMIT_ARGS, "
            "SPARK_SUBMIT_OPTS, JAVA_TOOL_OPTIONS and JDK_JAVA_OPTIONS are taken from the environment"
        )
        raise SetupError(msg) from error
    return SparkContext._jvm  # noqa: SLF001


def names_of_settings(submit_args: str) -> set[str]:
    """The names of the settings that `--conf name=value` or `--conf=name=value` gives."""
    return set(re.findall(r"""--conf[ =]["']?([\w.]+)=""", submit_args))


@contextmanager
def _isolated_engine(output: Path) -> Iterator[None]:
    """Let the body start the JVM with its output in a file, and ignoring SIGTERM and SIGINT.

    A signal to the whole process group (Ctrl-C, a service manager) would otherwise end the engine while this process
    is still stopping the queries. This process itself still receives these signals.
    """
    popen = subprocess.Popen

    def ignore_stop_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    with output.open("ab") as file:

        def start_jvm(*args: Any, **kwargs: Any) -> Any:
            # The JVM inherits the checkpoint's lock: no other job may start while the JVM lives.
            return popen(
                *args,
                **kwargs | {"preexec_fn": ignore_stop_signals, "close_fds": False, "stdout": file, "stderr": file},
            )

        setattr(java_gateway, "Popen", start_jvm)  # noqa: B010 - PySpark has no option for the child's signals
        try:
            yield
        finally:
            setattr(java_gateway, "Popen", popen)  # noqa: B010
