"""The private names of Spark and PySpark that the job uses. None of them is promised for the next release.

Each function says why there is no public way, and what would replace it. The rest of the library calls these functions,
so a new version of Spark has to be compared with this module alone (`tests/repository/test_imports.py`). The form
of Spark's files in a checkpoint is private too: `spark/checkpoint/spark_logs.py` knows it.
"""

import json
import socketserver
import subprocess
import sys
from functools import cached_property
from typing import Any

from pyspark import SparkContext, accumulators
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)


def jvm_of(spark: SparkSession | SparkContext) -> Any:
    """The JVM, in which Java's, Hadoop's and Kafka's public classes can be called; None over Spark Connect.

    PySpark has no public way to a Java class. A Python client for each purpose could replace it (Hadoop's file systems,
    Kafka's permissions), with settings and credentials of its own. For Spark Connect there would have to be a plugin of
    the server.
    """
    return getattr(spark, "_jvm", None)


def active_context() -> SparkContext | None:
    """The Spark context of this process; None if there is none yet.

    `SparkContext.getOrCreate` would start one. `SparkSession.getActiveSession` is public, but it does not see a context
    without a session, as in the shell of `spark-submit`.
    """
    return SparkContext._active_spark_context


def connect_to_submitted_jvm() -> None:
    """Connect to the JVM that `spark-submit` has started, without starting a session.

    After this `SparkConf()` has the caller's settings. A public way to read them before the session starts would
    replace it.
    """
    SparkContext._ensure_initialized()


def hadoop_conf(spark: SparkSession | SparkContext) -> Any:
    """Hadoop's configuration, with the settings and credentials of the cluster; None over Spark Connect.

    `spark.conf` shows only those that were set with the prefix `spark.hadoop.`, and not the cluster's own files.
    """
    java_context = getattr(spark, "_jsc", None)
    return None if java_context is None else java_context.hadoopConfiguration()


def java_array(context: SparkContext, java_class: Any, length: int) -> Any:
    """A Java array, for methods with a variable number of arguments. Py4J makes one through PySpark's gateway only."""
    gateway: Any = context._gateway
    return gateway.new_array(java_class, length)


def engine_process() -> "subprocess.Popen[bytes] | None":
    """The process of the JVM that PySpark has started; None on a cluster.

    It shows whether the engine has died, and lets a stop end one that hangs. A public process id would replace it.
    """
    return getattr(SparkContext._gateway, "proc", None)


def checkpoint_manager(spark: SparkSession) -> Any:
    """Spark's manager of checkpoints, which repartitions the state of a stopped query.

    Spark 4.2 has it in Scala; PySpark exports it under a private name. Raises `AttributeError` or `Py4JError` where
    this Spark lacks it.
    """
    return spark._streamingCheckpointManager


def silence_lost_connections() -> None:
    """Let PySpark's servers of accumulators print no traceback where a connection to the engine breaks.

    One line of the job explains the death of the engine. PySpark has no setting for this.
    """
    for server in (accumulators.AccumulatorTCPServer, accumulators.AccumulatorUnixServer):
        server.handle_error = _pass_over_lost_connection  # type: ignore[assignment]


def _pass_over_lost_connection(server: socketserver.BaseServer, request: Any, client_address: Any) -> None:
    if not isinstance(sys.exception(), (EOFError, ConnectionError)):
        socketserver.BaseServer.handle_error(server, request, client_address)


class ReportListener(StreamingQueryListener):
    """A listener that gets the engine's report on a micro-batch, as the JSON of `StreamingQueryProgress`.

    PySpark's own way takes a hundred calls to the JVM for a report, and five exceptions, one at the end of each map:
    190 ms of a slow core, in place of 2 (docs/performance.md, "Calls from Python to the JVM"). A PySpark that reads the
    JSON itself would replace it.
    """

    def on_report(self, report: dict[str, Any]) -> None:
        """Called after every micro-batch."""
        raise NotImplementedError

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is no micro-batch yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: `on_report` is called in its place."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the job itself reports it."""

    @cached_property
    def _jlistener(self) -> Any:
        """What PySpark registers in the JVM."""
        jvm: Any = SparkContext._jvm
        return jvm.PythonStreamingQueryListenerWrapper(_Receiver(self))


class _Receiver(JStreamingQueryListener):
    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        listener: Any = self.pylistener
        listener.on_report(json.loads(jevent.progress().json()))
