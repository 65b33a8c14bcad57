"""The source of files, without Spark: what it takes, in which order, once, and what it says of the rest."""

import errno
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sessionization.clock import wall_clock_ms
from sessionization.durations import HOUR_MS
from sessionization.spark.checkpoint import file_log
from sessionization.spark.checkpoint.file_log import FileLog
from sessionization.spark.checkpoint.file_source_log import RECENT_MS
from sessionization.spark.input import folder_source
from sessionization.spark.input.folder_source import FolderReader
from sessionization.spark.input.stream_folders import FOLDER, OTHER_ENDING, UNREADABLE

IN_1980_S, IN_2200_S = 315_532_800, 7_258_118_400
NAMES = (
    "2026-11-27T12:00:00.json", "a%20b.json", "#.json", "?.json", "[a].json", "é.json", "{x,y}.json", "~.json",
    "line\nbreak.json", "trailing .json", "*.json", "back\\slash.json", os.fsdecode(b"sp\xe4t.json"), "+.json",
)  # fmt: skip


@dataclass
class Source:
    """A folder with streams, and the source that reads it for one query."""

    folder: Path
    most_files: int = 1_000
    offset: dict[str, int] = field(default_factory=lambda: {"logOffset": -1})

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.reader = FolderReader(self.folder / "in", self.folder / "log", self.most_files, 2)

    def write(self, name: str, content: bytes | None = None, modified_s: int | None = None) -> Path:
        file = self.folder / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(os.fsencode(name) + b"\n" if content is None else content)
        if modified_s is not None:
            os.utime(file, (modified_s, modified_s))
        return file

    def plan(self) -> dict[str, int]:
        """Plans the next micro-batch, and does not commit it."""
        return self.reader.latestOffset(self.offset, None)  # type: ignore[arg-type]

    def take(self) -> list[tuple[str, bytes]]:
        """Stream and value of the next micro-batch's rows."""
        end = self.plan()
        rows = list(self.rows(self.offset, end))
        self.offset = end
        return rows

    def rows(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[str, bytes]]:
        for part in self.reader.partitions(start, end) if start != end else ():
            for batch in self.reader.read(part):
                yield from ((row["stream"], row["value"]) for row in batch.to_pylist())

    def unread(self) -> dict[str, str]:
        self.plan()
        unread = self.reader.reportLatestOffset()["unread"]
        assert isinstance(unread, dict)
        return unread


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_any_name_is_read_once_also_after_a_restart(source: Source) -> None:
    for name in NAMES:
        source.write(f"pc_sessions/{name}")
    taken = Counter(source.take())
    assert sum(taken.values()) == len(NAMES) + 1, "the name with a line break gives two lines"
    source.restart()
    assert source.take() == []


def test_names_that_are_no_utf8_have_uris_that_find_them(source: Source) -> None:
    file = source.write(f"console_sessions/{os.fsdecode(bytes([0xE4, 0xFF]))}.json", b"x\n")
    end = source.plan()
    [[batch]] = [list(source.reader.read(part)) for part in source.reader.partitions(source.offset, end)]
    [row] = batch.to_pylist()
    assert row["file"] == f"file:{source.folder}/in/console_sessions/%E4%FF.json"
    [taken] = FileLog(source.folder / "log").between(-1, 0)
    assert taken.path == file


def test_each_kind_of_ending_is_read_and_the_rest_is_counted(source: Source) -> None:
    for ending in (".json", ".jsonl", ".ndjson"):
        source.write(f"pc_sessions/a{ending}", b"x\n")
    for name in ("b.JSON", "c.csv", "d.json.zip", ".hidden.json", "_hidden.json", "deep/e.json", "date=1.json/f.json"):
        source.write(f"pc_sessions/{name}")
    source.write("other_stream/a.json")
    assert len(source.take()) == 3
    unread = source.unread()
    assert unread.keys() == {f"pc_sessions {OTHER_ENDING}", f"pc_sessions {FOLDER}"}
    assert unread[f"pc_sessions {OTHER_ENDING}"].startswith("3 entries of pc_sessions do not end with .json, ")
    assert unread[f"pc_sessions {FOLDER}"].startswith("2 entries of pc_sessions are folders")


def test_a_folder_below_a_stream_is_not_listed(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write("pc_sessions/archive/1.json")
    source.write("pc_sessions/1.json")
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(Path(path).name), scandir(path))[1])
    assert len(source.take()) == 1
    assert listed == ["pc_sessions", "console_sessions"]


def test_a_modification_time_decides_the_order_and_not_what_is_read(source: Source) -> None:
    source.write("pc_sessions/2200.json", b"3\n", IN_2200_S)
    source.write("pc_sessions/now.json", b"2\n")
    source.write("pc_sessions/1980.json", b"1\n", IN_1980_S)
    assert [value for _, value in source.take()] == [b"1", b"2", b"3"]
    source.write("pc_sessions/later.json", b"4\n", IN_1980_S)
    assert source.take() == [("pc_sessions", b"4")]


def test_a_file_that_may_not_be_read_is_named_and_read_later(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write("pc_sessions/good.json", b"1\n")
    source.write("pc_sessions/secret\n.json", b"2\n")
    refused = {"secret\n.json"}
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name not in refused and access(path, mode))
    assert source.take() == [("pc_sessions", b"1")]
    assert source.unread() == {f"pc_sessions {UNREADABLE}": f"1 entries of pc_sessions {UNREADABLE}: secret\\n.json"}
    refused.clear()
    assert source.take() == [("pc_sessions", b"2")]
    assert source.unread() == {}


def test_a_file_that_fails_in_reading_is_named(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write("pc_sessions/a b.json")
    end = source.plan()

    def fail(_self: Path, _mode: str) -> None:
        raise OSError(5, "Input/output error")

    [part] = source.reader.partitions(source.offset, end)
    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(RuntimeError, match=r"pc_sessions/a%20b\.json cannot be read \(Input/output error\): see to it"):
        list(source.reader.read(part))


def test_a_micro_batch_takes_at_most_so_many_files_the_oldest_first(tmp_path: Path) -> None:
    source = Source(tmp_path, most_files=2)
    for number in range(5):
        source.write(f"pc_sessions/{number}.json", b"%d\n" % number, 1_000 - number)
    assert [sorted(source.take()) for _ in range(4)] == [
        [("pc_sessions", b"3"), ("pc_sessions", b"4")],
        [("pc_sessions", b"1"), ("pc_sessions", b"2")],
        [("pc_sessions", b"0")],
        [],
    ]


def test_a_repeated_micro_batch_reads_the_same_files(source: Source) -> None:
    source.write("pc_sessions/1.json")
    end = source.plan()
    before = list(source.rows(source.offset, end))
    source.write("pc_sessions/2.json")
    source.restart()
    assert list(source.rows(source.offset, end)) == before
    source.restart()
    assert source.plan() == end, "what was taken before Spark stored the offset is read first"


def test_what_a_kill_left_of_an_entry_is_taken_again(source: Source) -> None:
    source.write("pc_sessions/1.json", b"1\n")
    source.take()
    source.write("pc_sessions/2.json", b"2\n")
    source.write("pc_sessions/3.json", b"3\n")
    source.plan()
    entry = source.folder / "log" / "1"
    whole = entry.read_bytes()
    for size in (0, 1, 5, 7, len(whole) // 2, len(whole) - 1):
        entry.write_bytes(whole[:size])
        source.restart()
        assert source.plan() == {"logOffset": 1}
        assert sorted(source.rows(source.offset, source.plan())) == [("pc_sessions", b"2"), ("pc_sessions", b"3")]


def test_an_incomplete_entry_that_is_not_the_newest_is_an_error(source: Source) -> None:
    for number in range(2):
        source.write(f"pc_sessions/{number}.json")
        source.take()
    (source.folder / "log" / "0").write_bytes(b"files 2\n{}\n")
    source.restart()
    with pytest.raises(ValueError, match="is incomplete"):
        source.plan()


def test_the_log_of_sparks_source_is_continued(source: Source) -> None:
    known, new = source.write("pc_sessions/1.json"), source.write("pc_sessions/2 é.json", b"2\n")
    log = source.folder / "log"
    log.mkdir()
    (log / "0.compact").write_text(f'v1\n{{"path":"file://{known}","timestamp":1,"batchId":0}}')
    (log / "1").write_text(f'v1\n{{"path":"{new.as_uri()}","timestamp":1,"batchId":1}}')
    source.offset = {"logOffset": 0}
    assert source.take() == [("pc_sessions", b"2")], "the micro-batch that did not end"
    source.write("pc_sessions/3.json", b"3\n")
    assert source.take() == [("pc_sessions", b"3")]
    assert source.take() == []


def test_the_log_forgets_deleted_files_and_stays_small(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "_RETAINED_FILES", 3)
    now_ms = wall_clock_ms()
    monkeypatch.setattr(folder_source, "wall_clock_ms", lambda: now_ms)
    kept = source.write("pc_sessions/kept.json")
    for number in range(40):
        gone = source.write(f"pc_sessions/{number}.json")
        source.take()
        gone.unlink()
        now_ms += HOUR_MS // 2
    names = {file.name for file in (source.folder / "log").iterdir()}
    assert len(names) < 10
    source.restart()
    assert source.take() == []
    log = FileLog(source.folder / "log")
    assert kept.name in log.names("pc_sessions")
    assert len(log.names("pc_sessions")) < 12


def test_the_names_of_a_lost_mount_are_not_forgotten(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_log, "_RETAINED_FILES", 2)
    now_ms = wall_clock_ms()
    monkeypatch.setattr(folder_source, "wall_clock_ms", lambda: now_ms)
    files = [source.write(f"pc_sessions/{number}.json") for number in range(3)]
    source.take()
    for file in files:
        file.unlink()
    for number in range(5):
        now_ms += 2 * RECENT_MS
        source.write(f"console_sessions/{number}.json")
        source.take()
    for file in files:
        source.write(f"pc_sessions/{file.name}")
    source.restart()
    assert source.take() == []


def test_large_files_are_divided_among_tasks(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_source, "_PIECE_BYTES", 1_000)
    monkeypatch.setattr(folder_source, "_TASK_BYTES", 2_000)
    monkeypatch.setattr(folder_source, "_OPEN_BYTES", 10)
    source.write("pc_sessions/large.json", b"".join(b"%05d\n" % number for number in range(1_000)))
    source.write("pc_sessions/small.json", b"x\n")
    end = source.plan()
    assert len(source.reader.partitions(source.offset, end)) == 2
    assert len(source.take()) == 1_001


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOTCONN, errno.EIO])
def test_a_stream_folder_that_cannot_be_listed_is_named_and_the_other_is_read(
    source: Source, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    source.write("pc_sessions/1.json")
    source.write("console_sessions/2.json", b"2\n")
    scandir = os.scandir

    def fail(path: Path) -> Iterator["os.DirEntry[str]"]:
        if path.name == "pc_sessions":
            raise OSError(number, os.strerror(number))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", fail)
    assert source.take() == [("console_sessions", b"2")]
    [line] = source.unread().values()
    assert line == f"1 entries of pc_sessions cannot be listed ({os.strerror(number)}): pc_sessions"
