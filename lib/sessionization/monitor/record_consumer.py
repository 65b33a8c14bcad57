"""Pass the records and details of micro-batches to one consumer through a bounded queue and a separate thread."""

import contextlib
import queue
import threading
from collections.abc import Callable

from pyspark.sql.streaming.listener import StreamingQueryProgress

from sessionization.monitor.batch_record import Record, batch_record
from sessionization.say import Say
from sessionization.spark.output.progress import BatchDetail, BatchProgress

MAX_QUEUED = 1_000
"""How many micro-batches may wait for a slow consumer; it does not get the ones beyond that."""
CLOSE_WITHIN_S = 2.0


class RecordConsumer:
    """Passes records and details to `take`. A slow or failing `take` does not affect the stream.

    A failure is reported once, and again only after a success in between.
    """

    def __init__(self, name: str, take: Callable[[Record, BatchDetail], None], say: Say) -> None:
        self._name, self._take, self._say = name, take, say
        self._queue: queue.Queue[tuple[BatchProgress, StreamingQueryProgress | None] | None] = queue.Queue(MAX_QUEUED)
        self._closing = threading.Event()
        self._dropped = 0
        self._is_failing = False
        self._thread = threading.Thread(target=self._work, name=f"monitor: {name}", daemon=True)
        self._thread.start()

    def put(self, progress: BatchProgress, engine: StreamingQueryProgress | None) -> None:
        """Queue a micro-batch. Called on the queries' threads and the engine's: never waits, never raises."""
        try:
            self._queue.put_nowait((progress, engine))
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Wait up to `CLOSE_WITHIN_S` for the queue to empty, and report if records are missing."""
        self._closing.set()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)  # wakes the thread
        self._thread.join(CLOSE_WITHIN_S)
        missing = self._dropped + (self._queue.qsize() if self._thread.is_alive() else 0)
        if missing or self._thread.is_alive():
            self._say(f"{self._name} was too slow: it lacks micro-batches, the tables have them all")

    def _work(self) -> None:
        while not (self._closing.is_set() and self._queue.empty()):
            item = self._queue.get()
            if item is not None:
                self._try_take(*item)

    def _try_take(self, progress: BatchProgress, engine: StreamingQueryProgress | None) -> None:
        try:
            self._take(batch_record(progress, engine), progress.detail)
            self._is_failing = False
        except Exception as error:  # noqa: BLE001 - no failure may reach the stream
            if not self._is_failing:
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                self._say(f"{self._name} fails ({reason}): the stream goes on without")
            self._is_failing = True
