"""A file in the folder of checkpoints stops the stream."""

import threading
from pathlib import Path

from sessionization.job.stop_file import stop_on_file

SOON_S = 0.02


def _watched(folder: Path, lines: list[str]) -> threading.Event:
    stop = threading.Event()
    stop_on_file(folder, stop, lines.append, SOON_S)
    return stop


def test_a_new_file_stops_the_run_and_is_deleted(tmp_path: Path) -> None:
    lines: list[str] = []
    stop = _watched(tmp_path, lines)
    assert not stop.wait(5 * SOON_S)
    (tmp_path / "stop").touch()
    assert stop.wait(10)
    watcher = next((thread for thread in threading.enumerate() if thread.name == "stop file"), None)
    if watcher is not None:
        watcher.join(10)
    assert not (tmp_path / "stop").exists()
    assert lines == [f"stopping, because there is a file {tmp_path / 'stop'}"]


def test_a_file_from_before_the_start_stops_nothing(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / "stop").write_text("stop\n")
    stop = _watched(tmp_path, lines)
    assert not (tmp_path / "stop").exists()
    assert not stop.wait(5 * SOON_S)
    (tmp_path / "stop").touch()
    assert stop.wait(10)
    assert "is from before this start" in lines[0]


def test_a_folder_that_is_away_for_a_while_stops_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    stop = _watched(folder, [])
    folder.rmdir()
    assert not stop.wait(5 * SOON_S)
    folder.mkdir()
    (folder / "stop").touch()
    assert stop.wait(10)
