"""The whole job in this process, on the engine of the tests: it starts in a fraction of the time."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sessionization.settings import SessionizeSettings
from sessionization.spark import run


@contextmanager
def job_running(settings: SessionizeSettings) -> Iterator[list[str]]:
    """Run the job while the body plays to it, then stop it gracefully; yields what it says.

    Raises what the job raises.
    """
    said: list[str] = []
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(run.run, settings, stop, run.Watch(said.append))
        try:
            yield said
        finally:
            stop.set()
        done.result()
