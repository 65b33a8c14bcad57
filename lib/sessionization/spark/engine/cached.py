"""Frames that are read several times."""

import contextlib
from collections.abc import Iterator

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame


@contextlib.contextmanager
def cached(*frames: DataFrame) -> Iterator[None]:
    """Keep the frames' rows while the body runs.

    Serverless compute refuses that, and computes them again each time: so they must give the same rows each time.
    """
    with contextlib.ExitStack() as stack:
        for frame in frames:
            with contextlib.suppress(PySparkException):
                frame.persist()
                stack.callback(frame.unpersist)
        yield
