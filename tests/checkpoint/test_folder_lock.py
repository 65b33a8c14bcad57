"""Only one job at a time uses a checkpoint folder."""

import errno
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sessionization import files
from sessionization.errors import CheckpointError, StoppedError
from sessionization.spark.checkpoint import folder_lock
from sessionization.spark.checkpoint.folder_lock import lock_folder
from tests.support.failing import failing_with
from tests.support.waiting import expect_no_line

LOCK_HOLDER = """
import subprocess, sys
from pathlib import Path
from sessionization.spark.checkpoint.folder_lock import lock_folder
with lock_folder(Path(sys.argv[1]), print):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    print(child.pid, flush=True)
    sys.stdin.read()
"""


def test_an_engine_that_outlives_the_body_does_not_hold_the_lock(tmp_path: Path) -> None:
    with lock_folder(tmp_path, expect_no_line):
        engine = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with engine, lock_folder(tmp_path, expect_no_line):
        assert engine.poll() is None
        engine.kill()


def test_a_second_job_is_refused_and_the_error_names_the_first(tmp_path: Path) -> None:
    lines: list[str] = []
    with lock_folder(tmp_path, expect_no_line):
        refused = pytest.raises(CheckpointError, match=r"is in use by process \d+ on \S+ since \S+, or by the engine")
        with refused, lock_folder(tmp_path, lines.append, wait_s=0.3):
            pytest.fail("two jobs at once")
    assert len(lines) == 1
    assert lines[0].startswith("waiting for process ")


def test_a_stop_ends_the_wait_for_the_lock(tmp_path: Path) -> None:
    stop = threading.Event()
    with lock_folder(tmp_path, expect_no_line):
        stopped = pytest.raises(StoppedError, match=r"stopped while waiting for process \d+ .*; nothing was begun")
        with stopped as error, lock_folder(tmp_path, lambda _: stop.set(), stop):
            pytest.fail("two jobs at once")
    assert error.value.exit_code == 0


def test_lock_is_held_until_the_killed_jobs_engine_has_ended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        engine = int(holder.stdout.readline())
        holder.kill()
    message = rf"in use by process {holder.pid} on .* the engine that it left behind \(`lsof {tmp_path}/lock`"
    with pytest.raises(CheckpointError, match=message), lock_folder(tmp_path, lambda _: None, wait_s=0):
        pytest.fail("the engine still runs")
    subprocess.run(["kill", "-9", str(engine)], check=True)
    with lock_folder(tmp_path, lambda _: None, wait_s=10):
        pass


def test_a_job_goes_on_with_a_warning_where_the_file_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", failing_with(errno.ENOSYS))
    lines: list[str] = []
    with lock_folder(tmp_path, lines.append):
        pass
    assert "cannot be locked (Function not implemented): see to it that no second job uses it" in lines[0]


def test_the_lock_is_taken_on_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to("/dev/full")
    with lock_folder(tmp_path, expect_no_line):
        pass


def test_a_folder_of_a_volume_is_created_and_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A volume cannot append to a file or lock one: there the job's `max_concurrent_runs` prevents a second job."""
    monkeypatch.setattr(files, "VOLUMES", tmp_path)
    folder = tmp_path / "main" / "games" / "checkpoints"
    with lock_folder(folder, print), lock_folder(folder, print, wait_s=0):
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("kind", "is_local"), [("ext4", True), ("tmpfs", True), ("nfs4", False), ("fuse.s3fs", False)])
def test_only_file_systems_of_one_machine_count_as_a_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, is_local: bool
) -> None:
    folder, mounts = tmp_path / "my disk é" / "new" / "folder", tmp_path / "mounts"
    escaped = str(folder.parents[1]).replace(" ", "\\040")
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\n/dev/b {escaped} xfs rw 0 0\nserver:/b {escaped} {kind} rw 0 0\n")
    monkeypatch.setattr(files, "_MOUNTS", mounts)
    assert files.is_on_local_disk(folder) is is_local
    assert files.is_on_local_disk(tmp_path)
    monkeypatch.setattr(files, "_MOUNTS", tmp_path / "not known here")
    assert not files.is_on_local_disk(tmp_path)


def test_a_lock_on_storage_of_several_machines_is_not_exclusive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for is_local in (True, False):
        monkeypatch.setattr(folder_lock, "is_on_local_disk", lambda _folder, is_local=is_local: is_local)
        with lock_folder(tmp_path, expect_no_line) as is_exclusive:
            assert is_exclusive is is_local
