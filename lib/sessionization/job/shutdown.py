"""Stop the queries of a job between two micro-batches."""

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from sessionization.errors import CheckpointError
from sessionization.say import Say
from sessionization.spark.checkpoint.backlog import has_unmerged_changes
from sessionization.spark.checkpoint.folder import ARCHIVE, ROLLUP, SESSIONIZE
from sessionization.spark.checkpoint.spark_logs import has_unfinished_batch
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.output.progress import last_engine_progress

REST_WITHIN_S = 25
"""How long the queries may take to finish what they have begun; each may then take `stopTimeout` to be cut off."""
_ANSWER_S = 5


def stop_queries(
    queries: dict[str, StreamingQuery],
    checkpoints: Path,
    has_append_since: Callable[[int], bool],
    say: Say,
    *,
    is_real_time: bool = False,
) -> list[str]:
    """Stop each query between two micro-batches, and let `sessions` catch up with what was written.

    A query that does not come to rest in time is cut off, as is a micro-batch that begins just then; the next start
    repeats it. What is said of that is what the checkpoint tells afterwards. In real-time mode `sessionize` writes down
    there what it has begun when it is done, and always is within a batch.

    Args:
        queries: by name.
        checkpoints: the job's folder.
        has_append_since: as for `refuse_backlog`.
        say: is told.
        is_real_time: whether that is the mode.

    Returns:
        Why queries had ended on their own.

    Raises `CheckpointError` where the checkpoint cannot be read, and no query had ended; all have stopped then.
    """
    causes: dict[str, str] = {}
    running = dict(queries)

    def note_ended() -> None:
        for name, query in running.items():
            if name not in causes and not query.isActive:
                causes[name] = f"query {name} stopped: {root_cause(str(query.exception() or 'no cause was given'))}"
                say(causes[name])

    note_ended()
    say("stopping: finishing the micro-batches that have begun")
    deadline_s = time.monotonic() + REST_WITHIN_S
    may_be_behind, unwritten = False, set[str]()
    for name in [name for name in (SESSIONIZE, ROLLUP, ARCHIVE) if name in queries]:
        query = running[name]
        if name == ROLLUP:
            may_be_behind = not _has_caught_up(query, (deadline_s - time.monotonic()) / 2)
        wait_until_idle(query, deadline_s)
        if is_real_time and name == SESSIONIZE and query.isActive and query.status["isTriggerActive"]:
            unwritten.add(name)
        note_ended()
        stop_query(query, say)
        del running[name]
    try:
        cut_off = unwritten | {name for name in queries if has_unfinished_batch(checkpoints / name)}
    except CheckpointError as error:
        if not causes:
            raise
        say(f"whether a micro-batch is cut off is not known: {error}")  # why a query has ended matters more
        return list(causes.values())
    for name in queries:
        if name in cut_off and name not in causes:
            say(f"query {name} is cut off within a micro-batch, which the next start repeats")
    if may_be_behind:
        is_behind = ROLLUP in cut_off or _in_time(
            lambda: has_unmerged_changes(checkpoints, has_append_since), _ANSWER_S
        )
        if is_behind is not False:
            say(f"`sessions` {'is' if is_behind else 'may be'} behind `session_changes` until the next start")
    return list(causes.values())


def stop_query(query: StreamingQuery, say: Say) -> None:
    """Stop it, cut off or not; one that does not let itself be stopped is told, and ends with the engine."""
    try:
        query.stop()
    except Py4JNetworkError:
        raise
    except (PySparkException, Py4JError) as error:
        say(f"query {query.name} does not stop ({root_cause(str(error))}): it ends with the engine")


def wait_until_idle(query: StreamingQuery, deadline_s: float, stop: threading.Event | None = None) -> None:
    """Wait until the micro-batch that now runs is done, the query has ended, `stop` is set, or it is too late.

    Where micro-batches take longer than the trigger there is no pause between two: then the next has just begun, and
    can be cut off before it has done any work.
    """

    def newest_done() -> int | None:
        last = last_engine_progress(query)
        return None if last is None else int(last["batchId"])

    before = newest_done()
    while query.isActive and query.status["isTriggerActive"] and newest_done() == before:
        if time.monotonic() >= deadline_s or (stop is not None and stop.is_set()):
            return
        time.sleep(0.01)


def _has_caught_up(query: StreamingQuery, within_s: float) -> bool:
    """Let a query work off all that there is, as far as time allows; one that has ended says so itself."""

    def catch_up() -> bool:
        with contextlib.suppress(Exception):  # a failed query raises here too, and is found by its having ended
            query.processAllAvailable()
        return True

    return not query.isActive or _in_time(catch_up, within_s) is True


def _in_time(holds: Callable[[], bool], within_s: float) -> bool | None:
    """Whether that holds; None where it cannot be told in time, for an engine that is busy may take long to answer."""
    found: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(Exception):
            found.append(holds())

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(max(0.0, within_s))
    return found[0] if found else None
