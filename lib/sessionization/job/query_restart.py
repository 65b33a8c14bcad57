"""Restart a query of a running job between two micro-batches."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from sessionization.errors import CheckpointError, StreamError
from sessionization.job.shutdown import wait_until_idle
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.ticks import WakeUp
from sessionization.spark.pipeline import Pipeline


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
