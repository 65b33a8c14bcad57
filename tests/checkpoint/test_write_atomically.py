"""Files are written completely or not at all; tests/volume has those of a volume."""

from pathlib import Path
from typing import NoReturn

import pytest

from sessionization.files import open_whole


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "layout.json"
    file.write_text("before", encoding="utf-8")
    return file


def content(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()}


def test_a_failed_write_leaves_no_file_and_the_former_one(file: Path) -> None:
    def write_half() -> NoReturn:
        with open_whole(file) as out:
            out.write(b"aft")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert content(file.parent) == {"layout.json": "before"}


def test_a_file_that_is_being_written_is_refused_where_that_is_asked(file: Path) -> None:
    with open_whole(file, "xb") as out:
        out.write(b"after")
        with pytest.raises(FileExistsError), open_whole(file, "xb"):
            pass
    assert content(file.parent) == {"layout.json": "after"}
