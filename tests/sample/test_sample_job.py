"""`jobs/preflight.py --sample FILE` works where no Spark is, and says in one line what it cannot use."""

import gzip
import json
import os
from pathlib import Path

import pytest

from tests.sample.without_spark import preflight
from tests.support.event_maps import ARCADE, HANDHELD, PACKAGE
from tests.support.wire_maps import GAME, INGESTED_MS, PHONE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"arcade": ARCADE, "handheld": HANDHELD}.items():
        (tmp_path / f"{name}.yml").write_text(text)
    (tmp_path / "empty").mkdir()
    (tmp_path / "phones").mkdir()
    (tmp_path / "phones" / "a.json").write_text(json.dumps(PHONE) + "\n")
    with gzip.open(tmp_path / "games.json.gz", "wt") as file:
        file.writelines(json.dumps(GAME | {"ts": 1, "user": {"id": str(number)}}) + "\n" for number in range(1_500))
    return tmp_path


def test_a_compressed_sample_is_read_up_to_a_thousand_messages_and_without_an_event_the_code_is_2(folder: Path) -> None:
    ended = preflight(folder, "--events", "arcade.yml", "--sample", "games.json.gz")
    assert ended.returncode == 2
    assert ended.stdout.splitlines()[0] == "1,000 messages: 0 events, 0 skipped, 1,000 would go to quarantine"
    assert ended.stderr == (
        "preflight: --events arcade.yml makes no event of games.json.gz: correct the map by the lines above\n"
    )


def test_the_folder_of_the_file_names_its_stream(folder: Path) -> None:
    ended = preflight(folder, "--events", "handheld.yml", "--sample", "phones/a.json")
    assert "kinds: open 1 (start)" in ended.stdout, ended.stderr


def test_the_files_of_a_folder_are_one_sample_in_the_order_of_their_names(folder: Path) -> None:
    (folder / "phones" / "b.jsonl").write_text("{}\n" + json.dumps(PHONE) + "\n")
    (folder / "phones" / "notes.txt").write_text("no message\n")
    for file in (folder / "phones").iterdir():
        os.utime(file, (INGESTED_MS / 1_000, INGESTED_MS / 1_000))
    ended = preflight(folder, "--events", "handheld.yml", "--sample", "phones")
    assert ended.stdout.startswith("3 messages: 2 events, 0 skipped, 1 would go to quarantine\n"), ended.stderr
    assert "missing_device_id 1: b.jsonl, message 1: " in ended.stdout


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--events", "handheld.yml", "--sample", "games.json.gz"),
         "--stream is missing: write one of the map's, phones, tablets"),
        (("--events", "arcade.yml", "--sample", "games.json.gz", "--stream", "phones"),
         "--stream 'phones' is not known: write one of the map's, arcade"),
        (("--events", "arcade.yml", "--sample", "none.json"),
         "--sample none.json cannot be read (No such file or directory): name a file of JSON lines"),
        (("--events", "arcade.yml", "--sample", "empty"),
         "--sample empty holds no message: name a file of JSON lines, or a folder of such files"),
        (("--events", "none.yml", "--sample", "games.json.gz"),
         f"--events none.yml is no file, and no map of this name is known: there are {', '.join(PACKAGE)}"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_named_in_one_line(folder: Path, options: tuple[str, ...], line: str) -> None:
    ended = preflight(folder, *options)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"preflight: {line}")
    assert ended.stderr.count("\n") == 1


def test_a_sample_without_a_start_or_an_end_leaves_the_map_in_peace(folder: Path) -> None:
    (folder / "levels.json").write_text(json.dumps(GAME | {"type": "level_up"}) + "\n")
    ended = preflight(folder, "--events", "arcade.yml", "--sample", "levels.json")
    assert ended.returncode == 2
    assert ended.stderr == (
        "preflight: no message of levels.json is a Start or an End: take one with some, or correct kinds of the map\n"
    )
