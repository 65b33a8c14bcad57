"""One job at a time on a checkpoint folder."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError
from sessionization.spark.checkpoint import folder_lock
from sessionization.spark.checkpoint.folder_lock import lock_folder

HOLDER = """
import subprocess, sys
from pathlib import Path
from sessionization.spark.checkpoint.folder_lock import lock_folder
with lock_folder(Path(sys.argv[1]), print):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def said_to_nobody(line: str) -> None:
    raise AssertionError(line)


def test_it_is_free_again_after_the_body(tmp_path: Path) -> None:
    for _ in range(2):
        with lock_folder(tmp_path / "new", said_to_nobody):
            pass


def test_an_engine_that_is_kept_does_not_keep_it(tmp_path: Path) -> None:
    with lock_folder(tmp_path, said_to_nobody):
        engine = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with engine, lock_folder(tmp_path, said_to_nobody):
        assert engine.poll() is None
        engine.kill()


def test_a_second_job_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    said: list[str] = []
    with lock_folder(tmp_path, said_to_nobody):
        refused = pytest.raises(CheckpointError, match=r"is in use by process \d+ on \S+ since \S+: stop that first")
        with refused, lock_folder(tmp_path, said.append, wait_s=0.3):
            pytest.fail("two jobs at once")
    assert len(said) == 1
    assert said[0].startswith("waiting for process ")


def test_a_stop_ends_the_wait(tmp_path: Path) -> None:
    stop = threading.Event()
    with lock_folder(tmp_path, said_to_nobody):
        stopped = pytest.raises(StoppedError, match=r"stopped while waiting for process \d+ .*; nothing was begun")
        with stopped as told, lock_folder(tmp_path, lambda _: stop.set(), stop):
            pytest.fail("two jobs at once")
    assert told.value.exit_code == 0


def test_a_killed_job_holds_it_until_its_engine_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        engine = int(holder.stdout.readline())
        holder.kill()
    left = rf"in use by the engine that process {holder.pid} on \S+ since \S+ has left behind \(`lsof {tmp_path}/lock`"
    with pytest.raises(CheckpointError, match=left), lock_folder(tmp_path, lambda _: None, wait_s=0):
        pytest.fail("the engine still runs")
    with monkeypatch.context() as elsewhere:  # in another container, where that process is not seen, but may live
        elsewhere.setattr(folder_lock, "_pid_scope", lambda: 0)
        refused = pytest.raises(CheckpointError, match=f"in use by process {holder.pid} on")
        with refused, lock_folder(tmp_path, lambda _: None, wait_s=0):
            pytest.fail("the engine still runs")
    subprocess.run(["kill", "-9", str(engine)], check=True)
    with lock_folder(tmp_path, lambda _: None, wait_s=10):
        pass


def test_where_locks_are_not_known_it_goes_on_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", unknown)
    said: list[str] = []
    with lock_folder(tmp_path, said.append):
        pass
    assert "cannot be locked (Function not implemented): see to it that no second job uses it" in said[0]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be used"), lock_folder(tmp_path / "file", said_to_nobody):
        pytest.fail("not a folder")


def test_a_full_disk_is_left_to_who_has_something_to_write(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("/dev/full")
    with lock_folder(tmp_path, said_to_nobody):
        pass


def test_a_volume_is_made_and_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume refuses to append to a file, and so to lock one: the job's `max_concurrent_runs` sees to it there."""
    monkeypatch.setattr(folder_lock, "_VOLUMES", tmp_path)
    folder = tmp_path / "main" / "games" / "checkpoints"
    with lock_folder(folder, print), lock_folder(folder, print, wait_s=0):
        assert list(folder.iterdir()) == []
