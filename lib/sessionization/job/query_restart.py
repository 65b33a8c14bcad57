"""Restart a query of a running job between two micro-batches."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from sessionization.errors import CheckpointError, StreamError
from sessionization.job.shutdown import wait_until_idle
from sessionization.say import Say
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.ticks import WakeUp
from sessionization.spark.pipeline import Pipeline

_WORKER_IS_SLOW = "Python worker failed to connect back"
_MOST_RESTARTS = 5


def restart_query(
    pipeline: Pipeline, name: str, stop: threading.Event, wake: Callable[[], WakeUp] | None = None
) -> bool:
    """Wait for the query's running micro-batch, stop it, and start it; False once `stop` is set.

    `wake` is called while the query is stopped.
    """
    query = pipeline.queries[name]
    pipeline.end_rests([name])
    wait_until_idle(query, math.inf, stop)
    if stop.is_set():
        return False
    query.stop()
    pipeline.start_query(name, None if wake is None else wake())
    return True


def restart_slow_workers(pipeline: Pipeline, say: Say) -> None:
    """Start queries again that ended because a Python worker did not answer in time.

    Spark waits ten seconds for a worker's start, which is too short on a machine that is busy for a moment. The
    query then repeats its micro-batch. It is started again `_MOST_RESTARTS` times.
    """
    for name, query in list(pipeline.queries.items()):
        restarts = pipeline.restarts[name]
        if not query.isActive and restarts < _MOST_RESTARTS and _WORKER_IS_SLOW in str(query.exception()):
            pipeline.restarts[name] += 1
            say(f"query {name} starts again: a Python worker took more than ten seconds to start, the machine is busy")
            pipeline.start_query(name)


@contextlib.contextmanager
def explain_failed_restart(occasion: str) -> Iterator[None]:
    """Raises `StreamError` where the body cannot start a query again after the `occasion`."""
    try:
        yield
    except Py4JNetworkError:
        raise
    except (PySparkException, Py4JError, CheckpointError) as error:
        cause = root_cause(str(error))
        msg = f"a query cannot be started again after {occasion} ({cause}): start the job again with the same options"
        raise StreamError(msg) from error
