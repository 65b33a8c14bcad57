"""Which files are taken, in which order, once, and what is said of the rest."""

import contextlib
import errno
import os
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from sessionization.clock import wall_clock_ms
from sessionization.durations import HOUR_MS
from sessionization.errors import CheckpointError, StreamError
from sessionization.spark.checkpoint import take_log
from sessionization.spark.checkpoint.take_log import TakenFile, take_numbers
from sessionization.spark.input import file_taker, message_lines
from sessionization.spark.input.stream_folders import UNREADABLE
from tests.support.failing import failing_with
from tests.support.taken_files import Source

IN_1980_S, IN_2200_S = 315_532_800, 7_258_118_400
NAMES = (
    "2026-11-27T12:00:00.json", "a%20b.json", "#.json", "?.json", "[a].json", "é.json", "{x,y}.json", "~.json",
    "line\nbreak.json", "trailing .json", "*.json", "back\\slash.json", os.fsdecode(b"sp\xe4t.json"), "+.json",
)  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_any_name_is_read_once_also_after_a_restart_and_a_merge(source: Source) -> None:
    for name in NAMES:
        source.write(f"pc_sessions/{name}")
    source.taker.take()
    files = [TakenFile(row["file"], 0, 0).path for row in source.rows()]
    assert len(files) == len(NAMES) + 1, "the name with a line break gives two lines"
    assert set(files) == {source.folder / "in" / "pc_sessions" / name for name in NAMES}
    source.restart()
    assert source.take() == []
    source.merge()
    source.restart()
    assert source.take() == []


def test_a_folder_below_a_stream_is_not_listed(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write("pc_sessions/archive/1.json")
    source.write("pc_sessions/1.json")
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (listed.append(Path(path).name), scandir(path))[1])
    source.taker.take()
    assert listed == ["pc_sessions", "console_sessions"]
    assert source.take() == [("pc_sessions", b"pc_sessions/1.json")]


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
    assert source.taker.unread == {
        f"pc_sessions {UNREADABLE}": f"1 entries of pc_sessions {UNREADABLE}: secret\\n.json"
    }
    refused.clear()
    assert source.take() == [("pc_sessions", b"2")]
    assert source.taker.unread == {}


def test_a_file_that_fails_in_reading_is_named(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    source.write("pc_sessions/a b.json")
    source.taker.take()
    monkeypatch.setattr(message_lines, "_open", failing_with(errno.EIO))
    with pytest.raises(RuntimeError, match=r"pc_sessions/a%20b\.json cannot be read \(Input/output error\): see to it"):
        list(source.rows())


def test_a_take_has_at_most_so_many_files_the_oldest_first(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_taker, "MOST_FILES", 2)
    for number in range(5):
        source.write(f"pc_sessions/{number}.json", b"%d\n" % number, 1_000 - number)
    source.taker.take()
    takes = [[file.stream_and_name[1] for file in take_log.read_takes(source.log, [n])] for n in range(3)]
    assert takes == [["4.json", "3.json"], ["2.json", "1.json"], ["0.json"]]


def test_many_bytes_are_divided_among_tasks(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_TASK_BYTES", 2_000), ("_OPEN_BYTES", 10)):
        monkeypatch.setattr(file_taker, name, size)
    for number, size in enumerate((4_000, 1_000, 1_000, 1_000, 1_000)):
        source.write(f"pc_sessions/{number}.json", b"x" * size, number)
    source.taker.take()
    sizes = [sum(file.size for file in take_log.read_takes(source.log, [n])) for n in take_numbers(source.log)]
    assert sizes == [4_000, 4_000]
    for number in range(5, 8):
        source.write(f"pc_sessions/{number}.json", b"x" * 100)
    source.taker.take()
    assert take_numbers(source.log) == [0, 1, 2], "a small one is one take"


def test_what_was_taken_is_read_after_a_kill_and_what_a_kill_cut_off_is_taken_again(source: Source) -> None:
    source.write("pc_sessions/1.json", b"1\n")
    source.taker.take()
    (source.log / ".1.take.tmp").write_text('{"uri":')
    source.write("pc_sessions/2.json", b"2\n")
    source.restart()
    assert source.take() == [("pc_sessions", b"1"), ("pc_sessions", b"2")]


@pytest.mark.parametrize("damage", ["x\n{}\n", "{}\n", '{"uri": "file:///a/b"}\n', None])
def test_a_damaged_log_is_an_error_that_names_it(source: Source, damage: str | None) -> None:
    for number in range(3):
        source.write(f"pc_sessions/{number}.json")
        source.taker.take()
    take = source.log / "1.take"
    if damage is None:
        take.unlink()
    else:
        take.write_text(damage)
    with pytest.raises(CheckpointError, match=r"input_files: the log of the input files cannot be read"):
        source.restart()


def test_takes_are_merged_up_to_the_first_one_that_is_not_committed(source: Source) -> None:
    for number in range(4):
        source.write(f"pc_sessions/{number}.json")
        source.taker.take()
    source.read = {0, 1, 3}
    source.merge()
    takes = {f"{number}.take" for number in range(4)}
    assert {file.name for file in source.log.iterdir()} == takes | {"1.names"}
    source.read = {0, 1, 2, 3}
    source.merge()
    assert {file.name for file in source.log.iterdir()} == {"1.names", "2.take", "3.take", "3.names"}
    source.restart()
    assert source.take() == []
    source.write("pc_sessions/4.json", b"4\n")
    assert source.take() == [("pc_sessions", b"4")]
    assert take_numbers(source.log) == [2, 3, 4], "numbers go on"


def test_a_listing_that_is_some_seconds_old_lets_nothing_be_taken_again(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        source.write(f"pc_sessions/{number}.json")
        source.take()
        if number in {1, 3}:
            source.merge()
        if number == 2:
            before_merge = set(source.log.iterdir())
    old_listings = (before_merge, set(source.log.iterdir()) - {source.log / "5.take"})
    iterdir = Path.iterdir
    for listed in old_listings:
        monkeypatch.setattr(
            Path, "iterdir", lambda path, listed=listed: iter(listed) if path == source.log else iterdir(path)
        )
        source.restart()
        assert source.taker._log.newest == 5
        assert source.take() == []


def test_the_log_forgets_a_file_that_two_merges_an_hour_apart_have_missed(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = wall_clock_ms()
    monkeypatch.setattr(file_taker, "wall_clock_ms", lambda: now_ms)
    source.write("pc_sessions/stays.json")
    gone = source.write("pc_sessions/gone.json")

    def known_after_a_merge() -> set[str]:
        source.write(f"console_sessions/{now_ms}.json")
        source.take()
        source.merge()
        return {file.stream_and_name[1] for file in take_log.merged_files(source.log)} & {"stays.json", "gone.json"}

    assert known_after_a_merge() == {"stays.json", "gone.json"}
    now_ms += 10 * HOUR_MS
    gone.rename(gone.with_name(".hidden"))
    assert known_after_a_merge() == {"stays.json", "gone.json"}, "one listing may miss a file"
    now_ms += HOUR_MS - 1
    gone.with_name(".hidden").rename(gone)
    assert known_after_a_merge() == {"stays.json", "gone.json"}
    gone.unlink()
    now_ms += HOUR_MS
    assert known_after_a_merge() == {"stays.json", "gone.json"}
    now_ms += HOUR_MS
    assert known_after_a_merge() == {"stays.json"}
    source.restart()
    assert source.taker._log.names("pc_sessions") == {"stays.json"}


def test_the_names_of_a_lost_mount_are_not_forgotten(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = wall_clock_ms()
    monkeypatch.setattr(file_taker, "wall_clock_ms", lambda: now_ms)
    files = [source.write(f"pc_sessions/{number}.json") for number in range(3)]
    source.take()
    for file in files:
        file.unlink()
    for number in range(5):
        now_ms += 2 * HOUR_MS
        source.write(f"console_sessions/{number}.json")
        source.take()
        source.merge()
    for file in files:
        source.write(f"pc_sessions/{file.name}")
    source.restart()
    assert source.take() == []


def test_the_background_takes_what_appears_and_a_failure_ends_the_job(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.write("pc_sessions/1.json")
    with source.taker.running(50):
        assert take_numbers(source.log) == [0], "the first listing comes before the queries"
        source.write("pc_sessions/2.json")
        deadline_s = time.monotonic() + 10
        while take_numbers(source.log) != [0, 1] and time.monotonic() < deadline_s:
            time.sleep(0.02)
        assert take_numbers(source.log) == [0, 1]
        source.taker.check()
        monkeypatch.setattr(take_log, "write_new", failing_with(errno.ENOSPC))
        source.write("pc_sessions/3.json")
        while source.taker._failure is None and time.monotonic() < deadline_s:
            time.sleep(0.02)
        with pytest.raises(StreamError, match=r"\(No space left on device\): see to the storage of"):
            source.taker.check()


def test_a_listing_is_done_shortly_before_a_micro_batch() -> None:
    for every_s, took_s, now_s in ((1, 0.01, 100.3), (1, 0.01, 100.99), (30, 0.5, 59.0)):
        pause_s = file_taker._pause_s(every_s, took_s, now_s)
        done_s = now_s + pause_s + took_s
        assert -done_s % (every_s / 4) == pytest.approx(0.1)
        assert max(0.1, 10 * took_s) <= pause_s < every_s / 4 + 10 * took_s + 0.1
    for every_s, took_s in ((0, 0.01), (0.2, 0.01), (1, 3)):  # for short triggers or of large folders it only pauses
        assert file_taker._pause_s(every_s, took_s, 100.0) == max(0.1, 10 * took_s)


def test_another_failure_of_the_background_is_raised_as_it_is(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source.taker, "take", Mock(side_effect=StreamError("the lease is lost")))
    with source.taker.running(50), pytest.raises(StreamError, match=r"^the lease is lost$"):
        source.taker.check()


def test_odd_entries_are_named_and_stop_nothing(source: Source) -> None:
    folder = source.write("pc_sessions/good.json", b"1\n").parent
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "empty.json").touch()
    (folder / "dangling.json").symlink_to("nowhere")
    assert source.take() == [("pc_sessions", b"1")]
    named = sorted(line.rpartition(": ")[2] for line in source.taker.unread.values())
    assert named == ["dangling.json", "empty.json", "loop.json"]
    (folder / "empty.json").write_bytes(b"2\n")
    assert source.take() == [("pc_sessions", b"2")]


def test_a_taker_whose_job_has_ended_takes_nothing_more(source: Source) -> None:
    source.write("pc_sessions/1.json")
    with source.taker.running(50):
        pass
    source.write("pc_sessions/2.json")
    assert source.take() == [("pc_sessions", b"pc_sessions/1.json")]


def test_a_failed_deletion_does_not_stop_the_merges(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        source.write(f"pc_sessions/{number}.json")
        source.take()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", failing_with(errno.EIO))
            with contextlib.suppress(OSError):
                source.merge()
    assert "2.names" in {file.name for file in source.log.iterdir()}
    source.restart()
    assert source.take() == []
