"""How far behind the rollup is, by its checkpoint as Spark and Delta write it, and how long its table is kept for that."""

import json
from pathlib import Path

import pytest

from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.backlog import backlog_age_ms, refuse_backlog, retention_covering_backlog_ms

NOW_MS = 1_763_726_400_000
NEWEST = 900


def rollup(checkpoints: Path, *batches: tuple[float, int, bool], done: int) -> None:
    """Micro-batches that were begun so many days ago, each with the version that it reads to, and whether of the first table."""
    for log in ("offsets", "commits"):
        (checkpoints / "rollup" / log).mkdir(parents=True)
    first = 40  # earlier ones Spark has cleared away
    for number, (days, version, is_first) in enumerate(batches, first):
        clock = json.dumps({"batchTimestampMs": int(NOW_MS - days * DAY_MS)})
        offset = {"sourceVersion": 1, "reservoirVersion": version, "index": -1, "isStartingVersion": is_first}
        (checkpoints / "rollup/offsets" / str(number)).write_text(f"v1\n{clock}\n{json.dumps(offset)}")
        if number < first + done:
            (checkpoints / "rollup/commits" / str(number)).write_text("v1\n{}")


def days_behind(checkpoints: Path, merged_days_ago: float | None = 0) -> float:
    merged_ms = None if merged_days_ago is None else int(NOW_MS - merged_days_ago * DAY_MS)
    return backlog_age_ms(checkpoints, NEWEST, merged_ms, NOW_MS) / DAY_MS


def test_a_rollup_that_has_read_all_is_not_behind_however_long_nothing_has_come(tmp_path: Path) -> None:
    rollup(tmp_path, (30, NEWEST + 1, False), done=1)
    assert days_behind(tmp_path, 30) == 0


def test_one_that_stands_still_is_behind_since_its_last_micro_batch(tmp_path: Path) -> None:
    rollup(tmp_path, (9, 700, False), (8, 800, False), (7, 850, False), done=2)
    assert days_behind(tmp_path) == 8
    assert days_behind(tmp_path, None) == 8, "no session is there yet"


def test_one_that_catches_up_is_as_far_as_what_it_has_merged(tmp_path: Path) -> None:
    rollup(tmp_path, (0.02, 200, False), (0.01, 210, False), done=2)
    assert days_behind(tmp_path, 6) == 6


def test_one_that_reads_the_table_it_found_needs_it_as_it_was_then(tmp_path: Path) -> None:
    rollup(tmp_path, (9, 300, True), (8, 300, True), done=2)
    assert days_behind(tmp_path) == 9


def test_a_first_micro_batch_that_is_to_be_repeated_counts_though_it_reads_all(tmp_path: Path) -> None:
    rollup(tmp_path, (9, NEWEST + 1, False), done=0)
    assert days_behind(tmp_path) == 9


def test_one_that_has_not_begun_misses_nothing(tmp_path: Path) -> None:
    assert days_behind(tmp_path) == 0


def test_a_clock_that_was_ahead_makes_it_no_less(tmp_path: Path) -> None:
    rollup(tmp_path, (-1, 800, False), done=1)
    assert days_behind(tmp_path, None) == 0


def appended_nothing(_version: int) -> bool:
    return False


def test_where_all_is_done_and_read_nothing_will_come_back(tmp_path: Path) -> None:
    rollup(tmp_path, (1, 700, False), (0, NEWEST + 1, False), done=2)
    asked: list[int] = []
    refuse_backlog(tmp_path, lambda version: bool(asked.append(version)))
    assert asked == [NEWEST + 1]


@pytest.mark.parametrize("query", ["sessionize", "archive", "rollup"])
def test_a_micro_batch_that_is_to_be_repeated_would_bring_rows_back(tmp_path: Path, query: str) -> None:
    rollup(tmp_path, (0, NEWEST + 1, False), done=1)
    offsets = tmp_path / query / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / "41").touch()
    with pytest.raises(CheckpointError, match=f"micro-batch 41 of {query} is begun and not done: start the job"):
        refuse_backlog(tmp_path, appended_nothing)


@pytest.mark.parametrize(("version", "is_first"), [(NEWEST, False), (NEWEST + 1, True)])
def test_rows_that_rollup_has_not_read_would_come_back(tmp_path: Path, version: int, is_first: bool) -> None:  # noqa: FBT001
    rollup(tmp_path, (0, version, is_first), done=1)
    with pytest.raises(CheckpointError, match="rollup has not read all of session_changes: start the job"):
        refuse_backlog(tmp_path, lambda version: version <= NEWEST)


def test_a_rollup_that_has_not_begun_brings_nothing_back(tmp_path: Path) -> None:
    refuse_backlog(tmp_path, lambda _: pytest.fail("it begins with the table as it is then"))


@pytest.mark.parametrize(
    "spoilt", ["v2\n{}\n{}", 'v1\n{"batchTimestampMs":1}\n{"logOffset":3}', "v1\n{}\n-", "", "v1\n{"]
)
def test_what_is_not_understood_is_told(tmp_path: Path, spoilt: str) -> None:
    rollup(tmp_path, (9, 300, False), done=1)
    (tmp_path / "rollup/offsets/40").write_text(spoilt)
    for read in (days_behind, lambda checkpoints: refuse_backlog(checkpoints, appended_nothing)):
        with pytest.raises(CheckpointError, match=r"not of a form known here|is not an offset log"):
            read(tmp_path)


def test_an_entry_that_is_gone_is_told(tmp_path: Path) -> None:
    rollup(tmp_path, (9, 300, False), (8, 310, False), done=2)
    (tmp_path / "rollup/offsets/41").unlink()
    with pytest.raises(CheckpointError, match="41 cannot be read"):
        days_behind(tmp_path)


@pytest.mark.parametrize(
    ("retention", "behind", "kept"),
    [(7, 0, 7), (7, 5, 7), (7, 5.1, 14), (7, 12, 14), (7, 12.1, 21), (30, 20, 30), (30, 29, 60)],
)
def test_the_table_is_kept_until_two_more_nights_have_passed(retention: int, behind: float, kept: int) -> None:
    assert retention_covering_backlog_ms(retention * DAY_MS, int(behind * DAY_MS)) == kept * DAY_MS
