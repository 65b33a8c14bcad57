"""One job at a time on a folder; what a dead job held is free."""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError
from sessionization.say import Say

_VOLUMES = Path("/Volumes")
_WAIT_S = 20
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class LockedAs:
    """What a folder is locked as: the option that named it, and the file in it that is locked.

    Delta ignores files whose names begin with an underscore.
    """

    option: str
    file_name: str


CHECKPOINT = LockedAs("--checkpoints", "lock")
TABLES = LockedAs("--warehouse", "_lock")
STREAM = LockedAs("--warehouse", "_stream")


@contextmanager
def lock_folder(
    folder: Path,
    say: Say,
    stop: threading.Event | None = None,
    wait_s: float = _WAIT_S,
    locked_as: LockedAs = CHECKPOINT,
) -> Iterator[None]:
    """Hold the folder while the body runs; it is made if missing.

    The operating system keeps the lock, and frees it when this process and the engine that it started have both ended,
    however they end: an engine may outlive its job by a moment, and must not meet the next one. That is what `wait_s`
    is for.

    A folder of a Databricks volume is made and not held.

    Raises `CheckpointError` when another job holds the folder all that time, `StoppedError` when `stop` is set before
    that, and `ConfigurationError` when the folder cannot be used.
    """
    folder = folder.absolute()
    is_volume = folder.is_relative_to(_VOLUMES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = None if is_volume else (folder / locked_as.file_name).open("a+", encoding="utf-8")
    except OSError as error:
        msg = f"{locked_as.option} {folder} cannot be used ({error.strerror}): give a folder that this user can write"
        raise ConfigurationError(msg) from error
    if file is None:  # a volume knows neither locks nor appending: the job's max_concurrent_runs sees to it there
        yield
        return
    with file:
        _wait_for(file, f"{locked_as.option} {folder}", say, stop or threading.Event(), wait_s)
        os.set_inheritable(file.fileno(), True)  # by the engine
        _sign(file)
        try:
            yield
        finally:
            with suppress(OSError):  # where locks are not known there is none to give back
                fcntl.flock(file, fcntl.LOCK_UN)  # for the engine too, which a notebook keeps for its next run


def _wait_for(file: IO[str], what: str, say: Say, stop: threading.Event, wait_s: float) -> None:
    deadline_s = time.monotonic() + wait_s
    is_told = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(file)
            if time.monotonic() >= deadline_s:
                msg = (
                    f"{what} is in use by {owner}: stop that first; "
                    "a second one beside it needs a --checkpoints folder and tables of its own"
                )
                raise CheckpointError(msg) from None
            if not is_told:
                say(f"waiting for {owner}, which still uses {what}")
                is_told = True
            if stop.wait(_POLL_S):
                msg = f"stopped while waiting for {owner}; nothing was begun"
                raise StoppedError(msg) from None
        except OSError as error:
            say(f"{what} cannot be locked ({error.strerror}): see to it that no second job uses it")
            return
        else:
            return


def _sign(file: IO[str]) -> None:
    """Say who holds it: a courtesy, for which nobody is refused on a disk that is full."""
    owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "pids": _process_ids(), "since": _now()})
    with suppress(OSError):
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), owner.encode())  # past the file's buffer, whose rest would fail again when it is closed


def _owner(file: IO[str]) -> str:
    file.seek(0)
    try:
        owner = json.loads(file.read())
        told = f"process {owner['pid']} on {owner['host']} since {owner['since']}"
        is_seen_here = (owner["host"], owner.get("pids")) == (socket.gethostname(), _process_ids())
        if is_seen_here and not _is_alive(owner["pid"]):
            return f"the engine that {told} has left behind (`lsof {file.name}` names it)"
    except (ValueError, LookupError, TypeError):  # it is just being written
        return "another job"
    return told


def _process_ids() -> str | None:
    """Where process ids are these: a start of a machine, and a container of it; None where that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
