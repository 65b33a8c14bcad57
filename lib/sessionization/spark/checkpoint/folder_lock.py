"""A lock that lets one job at a time use a folder; the lock of a dead job is free."""

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
from typing import IO

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError
from sessionization.files import appendable, is_on_local_disk
from sessionization.hadoop_path import AnyPath
from sessionization.say import Say

_WAIT_S = 20
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class LockRole:
    """The role that a folder is locked in: the option that names the folder, and the lock file in it.

    Delta ignores files whose names begin with an underscore.
    """

    option: str
    file_name: str


CHECKPOINT = LockRole("--checkpoints", "lock")
TABLES = LockRole("--warehouse", "_lock")
STREAM = LockRole("--warehouse", "_stream")
PLAYERS = LockRole("--warehouse", "_players")


@contextmanager
def lock_folder(
    folder: AnyPath,
    say: Say,
    stop: threading.Event | None = None,
    wait_s: float = _WAIT_S,
    locked_as: LockRole = CHECKPOINT,
) -> Iterator[bool]:
    """Lock the folder while the body runs; create the folder if it is missing.

    Yields whether the lock excludes every other job: on storage that several machines share it may not.

    The operating system holds the lock, and frees it when this process and the engine that it started have both
    ended, in whatever way. An engine may outlive its job by a moment, and must not overlap the next job. A locked
    folder is therefore tried again for `wait_s`.

    A folder of a Databricks volume or of a URI is created but not locked, nor is one on a file system without locks.

    Raises `CheckpointError` when another job holds the lock all that time, `StoppedError` when `stop` is set
    before that, and `ConfigurationError` when the folder cannot be used.
    """
    folder = folder.absolute()
    lockable = appendable(folder)
    lock_file = None if lockable is None else lockable / locked_as.file_name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = None if lock_file is None else lock_file.open("a+", encoding="utf-8")
    except OSError as error:
        msg = f"{locked_as.option} {folder} cannot be used ({error.strerror}): give a folder that this user can write"
        raise ConfigurationError(msg) from error
    if file is None:
        yield False
        return
    with file:
        is_locked = _acquire(file, f"{locked_as.option} {folder}", say, stop or threading.Event(), wait_s)
        os.set_inheritable(file.fileno(), True)  # by the engine
        _write_owner(file)
        try:
            yield is_locked and is_on_local_disk(folder)
        finally:
            with suppress(OSError):  # a file system without locks has nothing to release
                fcntl.flock(file, fcntl.LOCK_UN)  # also for the engine, which a notebook reuses in its next run


def _acquire(file: IO[str], locked: str, say: Say, stop: threading.Event, wait_s: float) -> bool:
    """Wait for the lock; False where the file system has no locks."""
    deadline_s = time.monotonic() + wait_s
    has_reported = False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _describe_owner(file)
            if time.monotonic() >= deadline_s:
                msg = (
                    f"{locked} is in use by {owner}, or by the engine that it left behind (`lsof {file.name}`): "
                    "stop that first; a second job needs a --checkpoints folder and tables of its own"
                )
                raise CheckpointError(msg) from None
            if not has_reported:
                say(f"waiting for {owner}, which still uses {locked}")
                has_reported = True
            if stop.wait(_POLL_S):
                msg = f"stopped while waiting for {owner}; nothing was begun"
                raise StoppedError(msg) from None
        except OSError as error:
            say(f"{locked} cannot be locked ({error.strerror}): see to it that no second job uses it")
            return False
        else:
            return True


def _write_owner(file: IO[str]) -> None:
    """Write the owner into the lock file, for messages only: a full disk must not stop the job."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    owner = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since})
    with suppress(OSError):
        os.ftruncate(file.fileno(), 0)
        os.write(file.fileno(), owner.encode())  # unbuffered: a buffered rest would fail again in close()


def _describe_owner(file: IO[str]) -> str:
    file.seek(0)
    try:
        owner = json.loads(file.read())
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (ValueError, LookupError, TypeError):  # the owner is just writing it
        return "another job"
