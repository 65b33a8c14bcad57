"""The whole job in this process, on the engine of the tests: it starts in a fraction of the time."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from sessionization.job import sessionize_job
from sessionization.job.summary import Summary
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.spark.test_stream import wait_for


@dataclass(frozen=True)
class RunningJob:
    """A job that runs on a thread of its own, and what it has said so far."""

    said: list[str]
    done: "Future[Summary]"

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Poll until the condition holds; raises what the job raises, and fails where it ended before."""

        def holds() -> bool:
            if self.done.done():
                self.done.result()
                msg = f"the job has ended before {what}: {self.said[-3:]}"
                raise AssertionError(msg)
            return condition()

        wait_for(holds, what)


@contextmanager
def job_running(settings: SessionizeSettings) -> Iterator[RunningJob]:
    """Run the job while the body plays to it, then stop it gracefully; raises what the job raises."""
    said: list[str] = []
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        job = RunningJob(
            said, pool.submit(sessionize_job.run, settings, stop, sessionize_job.JobCallbacks(said.append))
        )
        try:
            yield job
        finally:
            stop.set()
        job.done.result()
