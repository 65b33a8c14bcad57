"""The HDFS of the tests, and the copies of its folders."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import hdfs as hdfs_module
from tests.support.hdfs import Hdfs
from tests.support.hdfs_files import HdfsFiles
from tests.support.processes import processes_of_session

pytestmark = [pytest.mark.job, pytest.mark.long]

WRITTEN_MS = 1_767_225_780_123


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsFiles]:
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running.files


def paths_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_pushed_file_keeps_its_bytes_and_its_time_and_is_pulled_with_both(files: HdfsFiles, tmp_path: Path) -> None:
    file = tmp_path / "pc_sessions" / "a=1 %20é.json"
    file.parent.mkdir()
    file.write_bytes(b"line\n")
    os.utime(file, ns=(0, WRITTEN_MS * 1_000_000 + 999_999))
    files.push(file, f"/pushed/pc_sessions/{file.name}")
    assert files.entries("/pushed/pc_sessions").keys() == {file.name}
    assert files.pull("/pushed", tmp_path / "copy")
    copy = tmp_path / "copy" / "pc_sessions" / file.name
    assert copy.read_bytes() == b"line\n"
    assert copy.stat().st_mtime_ns == WRITTEN_MS * 1_000_000
    assert not files.pull("/pushed/pc_sessions", file.parent), "the file that was pushed is a copy already"


def test_a_pull_copies_what_changed_deletes_what_is_gone_and_skips_state_unless_asked(
    files: HdfsFiles, tmp_path: Path
) -> None:
    for name in ("commits/0", "commits/1", "state/0/1.zip"):
        files.write(f"/query/{name}", b"old")
    assert files.pull("/query", tmp_path)
    assert not files.pull("/query", tmp_path)
    assert paths_of(tmp_path) == {"commits/0", "commits/1"}
    files.write("/query/commits/1", b"new")
    (tmp_path / "gone" / "below").mkdir(parents=True)
    (tmp_path / "commits" / "2").touch()
    assert files.pull("/query", tmp_path, skip=())
    assert paths_of(tmp_path) == {"commits/0", "commits/1", "state/0/1.zip"}
    assert not (tmp_path / "gone").exists()
    assert (tmp_path / "commits" / "1").read_bytes() == b"new"


def test_what_does_not_exist_is_empty(files: HdfsFiles, tmp_path: Path) -> None:
    assert files.entries("/none") == {}
    assert files.read("/none/file") is None
    assert not files.pull("/none", tmp_path)


def test_an_hdfs_that_does_not_start_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs = Hdfs(tmp_path)
    started: list[int] = []
    stop = hdfs.stop

    def noted_stop() -> None:
        started.extend(process.pid for process in hdfs._processes)
        stop()

    monkeypatch.setattr(hdfs, "stop", noted_stop)
    monkeypatch.setitem(hdfs_module._SETTINGS, "dfs.datanode.failed.volumes.tolerated", "9")
    with pytest.raises(AssertionError, match=r"HDFS ended with code 1: see .*/data-node\.log"), hdfs:
        pass
    assert len(started) == 3  # one formatted
    assert not any(processes_of_session(pid) for pid in started)
