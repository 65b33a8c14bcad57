"""Files are written completely or not at all, also on a mount that cannot rename."""

import errno
import os
import shutil
from pathlib import Path
from typing import BinaryIO, NoReturn

import pytest

from sessionization.files import write_atomically


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "layout.json"
    file.write_text("before", encoding="utf-8")
    return file


def refuse(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every rename fail with this error."""

    def fail(*_: object) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "replace", fail)


def content(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_a_file_is_replaced(file: Path) -> None:
    write_atomically(file, "after")
    assert content(file.parent) == {"layout.json": "after"}


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_mount_that_cannot_rename_gets_a_copy(file: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    refuse(code, monkeypatch)
    write_atomically(file, "after")
    assert content(file.parent) == {"layout.json": "after"}


@pytest.mark.parametrize(("code", "may_copy"), [(errno.ENOSYS, False), (errno.EIO, True), (errno.EPERM, True)])
def test_any_other_failure_leaves_the_file_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, may_copy: bool
) -> None:
    refuse(code, monkeypatch)
    with pytest.raises(OSError, match=os.strerror(code)):
        write_atomically(file, "after", may_copy=may_copy)
    assert file.read_text(encoding="utf-8") == "before"


def test_a_copy_that_is_cut_off_leaves_the_complete_file_beside_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_half(source: BinaryIO, target: BinaryIO) -> NoReturn:
        target.write(source.read(3))
        raise KeyboardInterrupt

    refuse(errno.ENOSYS, monkeypatch)
    monkeypatch.setattr(shutil, "copyfileobj", copy_half)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(file, "after")
    assert content(file.parent) == {"layout.json": "aft", ".layout.json.tmp": "after"}
