"""The way of a micro-batch's record to whoever wants it: a bounded queue and a thread of its own for each."""

import contextlib
import queue
import threading
from collections.abc import Callable

from pyspark.sql.streaming.listener import StreamingQueryProgress

from sessionization.monitor.batch_record import Record, batch_record
from sessionization.say import Say
from sessionization.spark.output.progress import BatchProgress

MOST_WAITING = 1_000
"""Micro-batches that may wait for one that is slow; of those that come beyond it is not told."""
CLOSE_WITHIN_S = 2.0


class RecordConsumer:
    """Hands records to `take`, which may be as slow as it likes, and may fail: the stream does not notice.

    What it fails with is said once, until it has worked again.
    """

    def __init__(self, name: str, take: Callable[[Record], None], say: Say) -> None:
        self._name, self._take, self._say = name, take, say
        self._waiting: queue.Queue[tuple[BatchProgress, StreamingQueryProgress | None] | None] = queue.Queue(
            MOST_WAITING
        )
        self._over = threading.Event()
        self._lost = 0
        self._fails = False
        self._thread = threading.Thread(target=self._work, name=f"monitor: {name}", daemon=True)
        self._thread.start()

    def put(self, progress: BatchProgress, engine: StreamingQueryProgress | None) -> None:
        """Called on the queries' threads and the engine's: never waits, never raises."""
        try:
            self._waiting.put_nowait((progress, engine))
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Give it a moment for what waits, and say what it has not got."""
        self._over.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)  # wakes it
        self._thread.join(CLOSE_WITHIN_S)
        lost = self._lost + (self._waiting.qsize() if self._thread.is_alive() else 0)
        if lost or self._thread.is_alive():
            self._say(f"{self._name} was too slow: it lacks micro-batches, the tables have them all")

    def _work(self) -> None:
        while not (self._over.is_set() and self._waiting.empty()):
            item = self._waiting.get()
            if item is not None:
                self._try_take(*item)

    def _try_take(self, progress: BatchProgress, engine: StreamingQueryProgress | None) -> None:
        try:
            self._take(batch_record(progress, engine))
            self._fails = False
        except Exception as error:  # noqa: BLE001 - whatever it was, the stream must not hear of it
            if not self._fails:
                reason = str(error).strip().partition("\n")[0] or type(error).__name__
                self._say(f"{self._name} fails ({reason}): the stream goes on without")
            self._fails = True
