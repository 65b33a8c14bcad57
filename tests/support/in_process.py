"""Runs the whole job in this process, on the tests' engine, where it starts in a fraction of the time."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from sessionization.job import sessionize_job
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class RunningJob:
    """A job that runs on its own thread, and the lines that it has reported so far."""

    lines: list[str]
    future: "Future[list[str]]"

    def wait_for(self, condition: Callable[[], bool], awaited: str) -> None:
        """Poll until the condition holds. Raises the job's error; fails if the job ends first."""

        def holds() -> bool:
            if self.future.done():
                self.future.result()
                msg = f"the job has ended before {awaited}: {self.lines[-3:]}"
                raise AssertionError(msg)
            return condition()

        wait_for(holds, awaited)


@contextmanager
def job_running(settings: SessionizeSettings) -> Iterator[RunningJob]:
    """Run the job while the body sends it input, then stop it gracefully. Raises the job's error."""
    lines: list[str] = []
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        job = RunningJob(lines, pool.submit(sessionize_job.run, settings, stop, lines.append))
        try:
            yield job
        finally:
            stop.set()
        job.future.result()
