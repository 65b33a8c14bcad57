"""Count Python's calls to the state: each worker counts its own and writes the number into a file name."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql.streaming import StatefulProcessorHandle

from sessionization.spark import pipeline
from sessionization.spark.operator.processor import SessionProcessor

FOLDER = "SESSIONIZATION_BENCH_CALLS"
"""Environment variable: the folder into which every task writes its number of calls. Counting costs time."""


class CountingProcessor(SessionProcessor):
    """The product's processor, with a count of the messages that it sends to the JVM."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        client = handle._statefulProcessorApiClient
        send = client._send_proto_message
        self._calls = 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            return send(*args, **kwargs)

        client._send_proto_message = counted
        super().init(handle)

    def close(self) -> None:
        super().close()
        Path(os.environ[FOLDER], f"{uuid.uuid4().hex}-{self._calls}").touch()


def counter() -> Callable[[], int | None]:
    """A function that returns the number of calls so far, None if they are not counted.

    Call this before any query exists.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return lambda: None
    setattr(pipeline, "SessionProcessor", CountingProcessor)  # noqa: B010
    return lambda: sum(int(file.name.rpartition("-")[2]) for file in Path(folder).iterdir())
