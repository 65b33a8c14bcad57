"""A server on this machine in a child process, for tests and the demos."""

import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from sessionization.errors import SetupError
from sessionization_laptop.child_process import end_with_this_process

# Below the ports that systems assign to outgoing connections. A client that retries a killed server could otherwise
# be assigned the server's own port, connect to itself, and prevent the server from restarting.
_PORTS = range(20_000, 32_000)
_READY_S = 60
_STOP_S = 10
_POLL_S = 0.05


def free_ports(number: int) -> list[int]:
    """Find ports of 127.0.0.1 that are free now."""
    free: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == number:
            break
    return free


class ServerProcess(ABC):
    """A server with its folder; a context manager that starts and stops it.

    `stop` and `kill` leave what it stored, and the next `start` continues with that.

    On Linux the kernel kills the server when the thread that started it ends, even by SIGKILL. So start it from a
    thread that lives as long as the server is needed, such as the main one.
    """

    title: ClassVar[str]
    """What a message calls it."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, folder: Path, log_name: str) -> None:
        self.folder = folder.absolute()
        self.log_file = self.folder / log_name
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The id of the server's process; None unless it is alive."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @abstractmethod
    def start(self) -> None:
        """Start the server, and return when it serves clients; does nothing if it already runs.

        Raises `SetupError` when it does not start within a minute.
        """

    def stop(self) -> None:
        """Shut the server down, and kill it after 10 s."""
        if self._process is not None:
            self._process.send_signal(self.stop_signal)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
            self.kill()

    def kill(self) -> None:
        """Kill the server with SIGKILL; what it acknowledged survives, because that is in the system's caches."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _launch(
        self,
        command: list[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: int | None = None,
        text: str = "",
    ) -> subprocess.Popen[bytes]:
        """Start a command in a folder, and give it a short text on its standard input."""
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal must not reach the server
                preexec_fn=end_with_this_process(),  # noqa: PLW1509 - only two system calls, and no lock
            )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError), self._process.stdin as stdin:  # broken: it ended already, and its log says why
            stdin.write(text.encode())
        return self._process

    def _wait_until(self, process: subprocess.Popen[bytes], is_reached: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _READY_S
        while True:
            code = process.poll()
            if is_reached():
                return
            if code is not None or time.monotonic() > deadline_s:
                self.kill()
                outcome = f"did not start in {_READY_S} s" if code is None else f"ended with code {code} while starting"
                msg = f"the {self.title} {outcome}: see why at the end of {self.log_file}"
                raise SetupError(msg)
            time.sleep(_POLL_S)

    def _log_position(self) -> int:
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def _logged_since(self, position: int) -> str:
        with self.log_file.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")
