"""A mount that does not answer is a one-line error, before a job starts and while it runs."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sessionization.command_line import dead_mounts
from sessionization.command_line.parser import parse_settings, read_settings, run
from sessionization.errors import ConfigurationError
from sessionization.hadoop_errors import Uri
from sessionization.job.job_input import watch_input
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization_simulator.simulate_settings import SimulateSettings

DEAD_MOUNT_ERRORS = [errno.ENOTCONN, errno.ESTALE, errno.EIO]


def fail_below(number: int, folder: Path, original: Callable[..., object]) -> Callable[..., object]:
    def fail_or_call(path: object = ".", *args: object, **options: object) -> object:
        if str(path).startswith(str(folder)):
            raise OSError(number, os.strerror(number), str(path))
        return original(path, *args, **options)

    return fail_or_call


@pytest.mark.parametrize("number", DEAD_MOUNT_ERRORS)
@pytest.mark.parametrize("function", ["stat", "scandir"])
@pytest.mark.parametrize("option", ["input", "warehouse", "checkpoints"])
def test_a_folder_on_a_dead_mount_is_named_before_the_job_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    function: str,
    option: str,
) -> None:
    folders = {name: tmp_path / name for name in ("input", "warehouse", "checkpoints")}
    for folder in folders.values():
        folder.mkdir()
    monkeypatch.setattr(os, function, fail_below(number, folders[option], getattr(os, function)))
    with pytest.raises(SystemExit) as exited:
        parse_settings(SessionizeSettings, [f"--{name}={folder}" for name, folder in folders.items()], "sessionize")
    [line] = capsys.readouterr().err.splitlines()
    assert exited.value.code == 2
    assert f"--{option} {folders[option]} cannot be reached ({os.strerror(number)})" in line
    assert "mount it again" in line


@pytest.mark.parametrize(("model", "option"), [(InspectSettings, "checkpoints"), (SimulateSettings, "output")])
def test_every_job_names_a_folder_on_a_dead_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: type, option: str
) -> None:
    monkeypatch.setattr(os, "stat", fail_below(errno.ENOTCONN, tmp_path, os.stat))
    with pytest.raises(ConfigurationError, match=f"--{option} .* cannot be reached"):
        read_settings(model, [f"--{option}={tmp_path}"])


@pytest.mark.parametrize("model", [SessionizeSettings, InspectSettings])
def test_a_folder_whose_mount_does_not_answer_is_named_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: type
) -> None:
    """As a mount of NFS whose server is gone: a call into it neither returns nor fails."""
    is_over, stat, folder = threading.Event(), os.stat, tmp_path / "checkpoints"

    def hang_or_call(path: Any, *args: Any, **options: Any) -> object:
        if str(path) == str(folder):
            is_over.wait()
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", hang_or_call)
    monkeypatch.setattr(dead_mounts, "_LIMIT_S", 0.2)
    options = [f"--checkpoints={folder}"]
    if model is SessionizeSettings:
        options += [f"--{name}={tmp_path / name}" for name in ("input", "warehouse")]
    with pytest.raises(ConfigurationError) as refused:
        read_settings(model, options)
    is_over.set()
    assert str(refused.value) == (
        f"--checkpoints {folder} does not answer within 0.2 s: see whether the server of its mount is alive, "
        "then start again: nothing is lost"
    )


@pytest.mark.parametrize("number", DEAD_MOUNT_ERRORS)
def test_a_mount_that_dies_while_a_job_runs_is_one_line(capsys: pytest.CaptureFixture[str], number: int) -> None:
    def fail() -> NoReturn:
        raise OSError(number, os.strerror(number), "/mnt/tables/x")

    with pytest.raises(SystemExit) as exited:
        run(fail, "maintain")
    [line] = capsys.readouterr().err.splitlines()
    assert exited.value.code == 1
    assert line.startswith(f"maintain: /mnt/tables/x cannot be reached ({os.strerror(number)})")


def test_a_storage_that_fails_while_a_job_runs_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> NoReturn:
        raise OSError(errno.EACCES, "Permission denied: user=games", Uri("hdfs://host/tables/x"))

    with pytest.raises(SystemExit) as exited:
        run(fail, "maintain")
    [line] = capsys.readouterr().err.splitlines()
    assert exited.value.code == 1
    assert line.startswith("maintain: hdfs://host/tables/x cannot be used (Permission denied: user=games): see to the")


@pytest.mark.parametrize("place", ["y", "https://example.org/y"])
def test_another_failure_is_raised_with_its_traceback(place: str) -> None:
    def fail() -> NoReturn:
        raise OSError(errno.ENOTDIR, "x", place)

    with pytest.raises(NotADirectoryError):
        run(fail, "maintain")


def test_a_stream_folder_on_a_dead_mount_has_disappeared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pc_sessions").mkdir()
    lines: list[str] = []
    check = watch_input(tmp_path, dict, lines.append)
    check()
    assert lines == []

    def dead(path: Path, **_options: object) -> NoReturn:
        raise OSError(errno.ENOTCONN, "gone", str(path))

    monkeypatch.setattr(Path, "is_dir", dead)
    check()
    assert "pc_sessions has disappeared" in lines[0]
