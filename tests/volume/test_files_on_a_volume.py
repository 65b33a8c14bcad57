"""What the driver writes on a volume: whole files, without a rename, a sync or a lock; a kill is repaired."""

from pathlib import Path

import pytest

from sessionization import files
from sessionization.files import finish_replacement, replace_verified
from sessionization.spark.checkpoint import take_log
from sessionization.spark.checkpoint.take_log import TakeLog, TakenFile
from tests.support.volume import run_on_volume


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the library that is preloaded is built."""
    return tmp_path_factory.mktemp("built")


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    volume = tmp_path / "volume"
    volume.mkdir()
    return volume


_WITH_A_FILE = """
import fcntl, os, shutil, time

def files_in(folder):
    return sorted(path.name for path in folder.iterdir() if not path.is_dir())

(VOLUME / 'a').write_text('x')
(VOLUME / 'a').write_text('y')
FOLDER, NEW = os.open(VOLUME, os.O_RDONLY), (VOLUME / 'new').open('wb')
"""


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("(VOLUME / 'a').rename(VOLUME / 'b')", "Function not implemented"),
        ("os.rename('a', 'b', src_dir_fd=FOLDER, dst_dir_fd=FOLDER)", "Function not implemented"),
        ("os.link(VOLUME / 'a', VOLUME / 'b')", "Function not implemented"),
        ("file = (VOLUME / 'a').open(); os.fsync(file.fileno())", "Operation not permitted"),
        ("fcntl.flock((VOLUME / 'a').open(), fcntl.LOCK_EX)", "Function not implemented"),
        ("(VOLUME / 'a').open('a')", "Operation not permitted"),
        ("(VOLUME / 'a').open('r+')", "Operation not permitted"),
        ("os.ftruncate(NEW.fileno(), 100)", "Operation not permitted"),
        ("NEW.write(b'xyz'); NEW.seek(0)", "Illegal seek"),
        ("os.utime(VOLUME / 'a')", "Operation not permitted"),
        ("shutil.copyfile(VOLUME / 'a', VOLUME / 'b')", None),
        (
            "assert files_in(VOLUME) == [], 'late'\n"
            "time.sleep(3)\n"
            "assert files_in(VOLUME) == ['a', 'new']\n"
            "(VOLUME / 'a').unlink()\n"
            "assert not (VOLUME / 'a').exists()\n"
            "assert files_in(VOLUME) == ['a', 'new'], 'late'",
            None,
        ),
    ],
)
def test_the_mount_of_the_tests_has_a_volumes_ways(volume: Path, built: Path, call: str, error: str | None) -> None:
    ended = run_on_volume(f"{_WITH_A_FILE}{call}\n", volume, built)
    assert (error or "") in ended.stderr
    assert (ended.returncode == 0) == (error is None), ended.stderr


@pytest.mark.parametrize(
    "script",
    [
        "files.write_atomically(VOLUME / 'f', 'a'); files.write_atomically(VOLUME / 'f', 'b')",
        "files.write_new(VOLUME / 'f', 'b')",
        "files.replace_verified(VOLUME / 'f', 'b')",
        "with files.open_whole(VOLUME / 'f', 'xb') as out:\n    out.write(b'b')",
    ],
)
def test_a_file_is_written_under_its_own_name(volume: Path, built: Path, script: str) -> None:
    ended = run_on_volume(script, volume, built)
    assert ended.stderr == ""
    assert {file.name: file.read_text() for file in volume.iterdir()} == {"f": "b"}


def test_the_log_of_takes_is_written_merged_and_read_again(volume: Path, built: Path) -> None:
    script = (
        "from sessionization.spark.checkpoint.take_log import TakeLog, TakenFile\n"
        "log = TakeLog(VOLUME / 'log')\n"
        "for name in 'abc':\n"
        "    log.append([TakenFile(f'dbfs:/Volumes/v/pc_sessions/{name}.json', 1, 1, 1)])\n"
        "log.merge({0, 1}, {'pc_sessions': {'a.json', 'b.json'}}, 1)\n"
        "print(sorted(TakeLog(VOLUME / 'log').names('pc_sessions')))\n"
    )
    ended = run_on_volume(script, volume, built)
    assert (ended.stderr, ended.stdout) == ("", "['a.json', 'b.json', 'c.json']\n")


def test_a_start_right_after_another_one_finds_the_copy_deleted_that_it_lists(volume: Path, built: Path) -> None:
    script = (
        "import time\n"
        "files.replace_verified(VOLUME / 'f', 'a')\n"
        "[copy] = VOLUME.glob('.*')\n"
        "files.finish_replacement(VOLUME)\n"
        "print((VOLUME / 'f').read_text(), copy.exists())\n"
    )
    ended = run_on_volume(script, volume, built)
    assert (ended.stderr, ended.stdout) == ("", "a False\n")


@pytest.fixture
def volume_here(volume: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The volume, for this process too; its mount has no volume's ways here."""
    monkeypatch.setattr(files, "VOLUMES", volume)
    return volume


@pytest.mark.parametrize("cut", range(8))
def test_a_kill_in_a_replacement_leaves_the_old_or_the_new_content(
    volume_here: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Each step of the replacement is cut off: a write leaves nothing, a part or the whole, or a delete is not done."""
    file, old, new = volume_here / "9.compact", "v1\nold entry", "v1\nnew entry, longer"
    file.write_text(old)
    write, steps = files.write_atomically, 0

    def write_and_die(target: Path, text: str) -> None:
        nonlocal steps
        for part in ("", text[:5], text):
            if steps == cut:
                write(target, part)
                raise KeyboardInterrupt
            steps += 1
        write(target, text)

    def die(_self: Path, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", write_and_die)
        patch.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            replace_verified(file, new)
    finish_replacement(volume_here)
    assert file.read_text() == (old if cut < 2 else new)
    assert [left.name for left in volume_here.iterdir()] == ["9.compact"]


@pytest.mark.parametrize("cut", [0, 1, 30, -2, -1])
def test_of_a_take_that_was_cut_off_the_complete_lines_count_once(tmp_path: Path, cut: int) -> None:
    log = TakeLog(tmp_path)
    pieces = [TakenFile(f"file:///in/pc_sessions/{name}.json", 1, 1, 1) for name in "ab"]
    log.append(pieces)
    take = tmp_path / "0.take"
    text = take.read_text()
    take.write_text(text[:cut])
    for_spark = map(TakenFile.from_json, filter(take_log.is_complete, take.read_text().splitlines()))
    known = TakeLog(tmp_path).names("pc_sessions")
    assert known == {file.stream_and_name[1] for file in for_spark}
    assert len(known) == {0: 0, 1: 0, 30: 0, -2: 1, -1: 2}[cut]


@pytest.mark.parametrize("left", ["", "{", "whole line"])
def test_names_that_were_cut_off_do_not_count(tmp_path: Path, left: str) -> None:
    log = TakeLog(tmp_path)
    for name in "abc":
        log.append([TakenFile(f"file:///in/pc_sessions/{name}.json", 1, 1, 1)])
    log.merge({0}, {"pc_sessions": {"a.json"}}, 1)
    line = log_line = (tmp_path / "0.names").read_text().splitlines()[0]
    (tmp_path / "1.names").write_text(left.replace("whole line", f"{log_line}\n{line}\n"))
    assert TakeLog(tmp_path).names("pc_sessions") == {"a.json", "b.json", "c.json"}
