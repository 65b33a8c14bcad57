"""Stop the queries of a job between two micro-batches."""

import contextlib
import threading
import time

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from sessionization.errors import CheckpointError
from sessionization.hadoop_path import AnyPath
from sessionization.say import Say
from sessionization.spark.checkpoint.folder import ARCHIVE, ROLLUP, SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import has_unfinished_batch
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.output.progress import last_engine_progress
from sessionization.time_limit import CheckTimeoutError, call_within

IDLE_WITHIN_S = 25
"""How long the queries may take to finish started micro-batches; cutting off each may then take `stopTimeout`."""
_STOP_ORDER = {SESSIONIZE: 0, ROLLUP: 1, ARCHIVE: 2}
"""`rollup` merges what `sessionize` has written last; `archive` may be cut off, so it stops last."""


def stop_queries(
    queries: dict[str, StreamingQuery], checkpoints: AnyPath, say: Say, *, is_real_time: bool = False
) -> list[str]:
    """Stop each query between two micro-batches, and let `sessions` catch up with `session_changes`.

    Cuts off a query that does not become idle in time, or that starts a micro-batch at the moment of the stop; the
    next start repeats that micro-batch. The checkpoint then shows which micro-batches were cut off. In real-time
    mode, however, `sessionize` is always within a batch, and records it in the checkpoint only at its end.

    Returns the causes of queries that had ended on their own. Raises `CheckpointError` where the checkpoint cannot be
    read and no query had ended. All queries have stopped by then.
    """
    causes: dict[str, str] = {}
    running = dict(queries)

    def note_ended() -> None:
        for name, query in running.items():
            if name not in causes and not query.isActive:
                causes[name] = f"query {name} stopped: {root_cause(str(query.exception() or 'no cause was given'))}"
                say(causes[name])

    note_ended()
    say(f"stopping: finishing the micro-batches that have begun, within {IDLE_WITHIN_S} s")
    deadline_s = time.monotonic() + IDLE_WITHIN_S
    may_be_behind, unrecorded = False, set[str]()
    for name in sorted(queries, key=lambda name: _STOP_ORDER.get(name, 0)):
        query = running[name]
        if name == ROLLUP:
            may_be_behind = not _has_caught_up(query, (deadline_s - time.monotonic()) / 2)
        wait_until_idle(query, deadline_s)
        if is_real_time and name == SESSIONIZE and query.isActive and query.status["isTriggerActive"]:
            unrecorded.add(name)
        note_ended()
        stop_query(query, say)
        del running[name]
    try:
        cut_off = unrecorded | {name for name in queries if has_unfinished_batch(checkpoints / name)}
    except CheckpointError as error:
        if not causes:
            raise
        say(f"whether a micro-batch is cut off is not known: {error}")  # the cause of an ended query matters more
        return list(causes.values())
    for name in queries:
        if name in cut_off and name not in causes:
            say(f"query {name} is cut off within a micro-batch: the next start repeats it, and no row is lost")
    if may_be_behind:
        say("`sessions` may be behind `session_changes` until the next start")
    return list(causes.values())


def stop_query(query: StreamingQuery, say: Say) -> None:
    """Stop a query, even within a micro-batch. If it does not stop, print a line; it then ends with the engine."""
    try:
        query.stop()
    except Py4JNetworkError:
        raise
    except (PySparkException, Py4JError) as error:
        say(f"query {query.name} does not stop ({root_cause(str(error))}): it ends with the engine")


def wait_until_idle(query: StreamingQuery, deadline_s: float, stop: threading.Event | None = None) -> None:
    """Wait until the running micro-batch is committed, the query has ended, `stop` is set, or the deadline has passed.

    If micro-batches take longer than the trigger, there is no pause between them. The next one has then just
    started, and can be cut off before it does any work.
    """

    def newest_committed() -> int | None:
        last = last_engine_progress(query)
        return None if last is None else int(last["batchId"])

    newest_at_first = newest_committed()
    while query.isActive and query.status["isTriggerActive"] and newest_committed() == newest_at_first:
        if time.monotonic() >= deadline_s or (stop is not None and stop.is_set()):
            return
        time.sleep(0.01)


def _has_caught_up(query: StreamingQuery, within_s: float) -> bool:
    """Let a query process all available input, within the given time. True also for a query that has ended."""
    try:
        with contextlib.suppress(PySparkException, Py4JError):  # the callers check whether it has ended
            call_within(max(0.0, within_s), query.processAllAvailable)
    except CheckTimeoutError:
        return not query.isActive
    return True
