"""Processes that run for the time of a `with`."""

import os
import re
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from sessionization_laptop.child_process import end_with_this_process

_READY_S = 120
_POLL_S = 0.05


class LoggingDaemons(ABC):
    """Daemons whose logs, in a folder, tell when they are ready. They end with this process.

    At the end of the `with` all are stopped, also those that ran where a later one did not start.
    """

    def __init__(self, folder: Path) -> None:
        """Files and logs go below `folder`."""
        self._folder = folder.absolute()
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _start(self) -> None: ...

    def stop(self) -> None:
        """Kill the processes, and wait for them."""
        for process in self._processes:
            process.kill()
            process.wait()
        self._processes = []

    def _launch(
        self, name: str, words: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> tuple[Path, subprocess.Popen[bytes]]:
        """Start a process, and return its log and the process.

        By default its environment has no `JAVA_TOOL_OPTIONS`: these options are for the engine's JVM, and may conflict
        with those of the daemon, such as the garbage collector.
        """
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=self._folder,
                env=environment or {name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_this_process(),  # noqa: PLW1509 - two system calls, no lock among them
            )
        self._processes.append(process)
        return log, process

    def _found(self, pattern: re.Pattern[str], process: subprocess.Popen[bytes], log: Path) -> re.Match[str]:
        """Wait until the log has a line like this."""
        self._wait_until(lambda: pattern.search(_text(log)) is not None, process, log)
        found = pattern.search(_text(log))
        assert found is not None
        return found

    def _wait_until(self, is_reached: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
        name, deadline_s = type(self).__name__.upper(), time.monotonic() + _READY_S
        while not is_reached():
            assert process.poll() is None or is_reached(), f"{name} ended with code {process.poll()}: see {log}"
            assert time.monotonic() < deadline_s, f"{name} did not start within {_READY_S} s: see {log}"
            time.sleep(_POLL_S)


def _text(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")
