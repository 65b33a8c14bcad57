"""What lies in a stream's folder: files to read, and why the others are not."""

import errno
import os
from pathlib import Path

import pytest

from sessionization.errors import ConfigurationError
from sessionization.spark.input.stream_folders import (
    FOLDER,
    OTHER_ENDING,
    describe_input,
    list_folder,
    misplaced_files,
    printable,
)
from tests.support.failing import failing_with


def fill(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}\n")


def test_each_entry_is_read_or_counted_with_its_reason(tmp_path: Path) -> None:
    read = (
        "a.json",
        "b.jsonl",
        "c.ndjson",
        "d.json.gz",
        "e f.jsonl.gz",
        "%20#?[a].ndjson.gz",
        "é.json",
        "line\nbreak.json",
        "2026-11-27T12:00:00.json",
        os.fsdecode(b"sp\xe4t.json"),
    )
    fill(tmp_path, *read, ".hidden.json", "_hidden.json", "A.JSON", "b.csv")
    fill(tmp_path / "archive.json", "old.json")
    os.mkfifo(tmp_path / "pipe.json")
    found = list_folder(tmp_path)
    assert sorted(Path(path).name for path, _ in found.files) == sorted(read)
    assert {reason: len(names) for reason, names in found.unread.items()} == {OTHER_ENDING: 2, FOLDER: 2}


def test_a_name_is_printed_in_one_line_with_its_bytes_that_are_no_utf8() -> None:
    assert printable(os.fsdecode(b"sp\xe4t.csv")) == "sp\\xe4t.csv"
    assert printable("line\nbreak é.csv") == "line\\nbreak é.csv"


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTCONN])
def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "scandir", failing_with(number))
    [line] = list_folder(tmp_path).warnings("pc_sessions").values()
    assert line == f"1 entries of pc_sessions cannot be listed to the end ({os.strerror(number)}): {tmp_path.name}"


def test_a_missing_folder_is_empty(tmp_path: Path) -> None:
    found = list_folder(tmp_path / "missing")
    assert (found.files, found.unread) == ([], {})


def test_files_beside_the_folders_of_the_streams_are_named_and_refused_where_there_is_no_such_folder(
    tmp_path: Path,
) -> None:
    (tmp_path / "1.json").write_text("{}")
    where = f"1 files lie in {tmp_path} itself and are not read: move each into the folder of its stream"
    with pytest.raises(ConfigurationError, match=f"^{where}, {tmp_path / 'pc'} or {tmp_path / 'console'}$"):
        describe_input(tmp_path, ("pc", "console"))
    (tmp_path / "pc").mkdir()
    assert describe_input(tmp_path, ("pc", "console")) == f"{where}; pc has 0 files; console is missing so far"
    (tmp_path / "1.json").rename(tmp_path / "pc" / "1.json")
    assert describe_input(tmp_path, ("pc", "console")) == "pc has 1 files; console is missing so far"
    assert misplaced_files(tmp_path) == {}
