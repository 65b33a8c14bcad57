"""Bounds the logs of Spark's file sources: a query whose log is large starts again with a shorter one.

The entries of merged takes go, or at a URI those of deleted files.
"""

import math
import threading
import time
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from sessionization.errors import CheckpointError, StreamError
from sessionization.job.queries import Queries
from sessionization.job.shutdown import wait_until_idle
from sessionization.spark.checkpoint.file_source_log import LARGE_LOG_BYTES, log_bytes
from sessionization.spark.checkpoint.folder import ARCHIVE, SESSIONIZE
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.job_context import JobContext

_CHECK_EVERY_S = 60
_GROWTH = 2


class FileLogLimit:
    """Restarts a query that reads files when its log has doubled since the last restart, from `LARGE_LOG_BYTES` on.

    The log of a job whose input is never deleted grows on; the restarts then become rarer and rarer.
    """

    def __init__(self, context: JobContext, queries: Queries, stop: threading.Event) -> None:
        self._context, self._queries, self._stop = context, queries, stop
        self._limit_bytes = dict.fromkeys((SESSIONIZE, ARCHIVE), LARGE_LOG_BYTES)
        self._next_check_s = 0.0

    def check(self) -> None:
        """Look at the logs once a minute; raises `StreamError` where a query cannot be started again."""
        if self._context.settings.input_folder is None or time.monotonic() < self._next_check_s:
            return
        self._next_check_s = time.monotonic() + _CHECK_EVERY_S
        for name, limit in self._limit_bytes.items():
            size = log_bytes(self._context.checkpoint.folder / name)
            if size > limit:
                self._restart(name, size)

    def _restart(self, name: str, before: int) -> None:
        query = self._queries.by_name[name]
        if not query.isActive:
            return
        self._queries.end_rests([name])
        try:
            wait_until_idle(query, math.inf, self._stop)
            if self._stop.is_set():
                return
            query.stop()
            self._queries.start_query(name)
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError, CheckpointError) as error:
            msg = (
                f"a query cannot be started again after its log of files grew large ({root_cause(str(error))}): "
                "start the job again with the same options"
            )
            raise StreamError(msg) from error
        after = log_bytes(self._context.checkpoint.folder / name)
        self._limit_bytes[name] = max(LARGE_LOG_BYTES, _GROWTH * after)
        is_folder = isinstance(self._context.settings.input_folder, Path)
        advice = (
            "" if after < before or is_folder else ": delete input files that were read (`maintain --input-retention`)"
        )
        self._context.say(f"query {name} has started again; its log of files has {after:,} of {before:,} bytes{advice}")
