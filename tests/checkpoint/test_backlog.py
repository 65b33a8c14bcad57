"""The rollup's backlog by its checkpoint, as Spark and Delta write it, and the table retention that it needs."""

import json
from pathlib import Path

import pytest

from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.backlog import backlog_age_ms, refuse_backlog, retention_covering_backlog_ms

NOW_MS = 1_763_726_400_000
NEWEST = 900


def write_rollup_logs(checkpoints: Path, *batches: tuple[float, int, bool], committed: int) -> None:
    """Writes the logs of micro-batches (started days ago, version read to, whether it reads the initial table)."""
    for log in ("offsets", "commits"):
        (checkpoints / "rollup" / log).mkdir(parents=True)
    first_number = 40  # Spark has deleted the earlier ones
    for number, (days, version, is_first) in enumerate(batches, first_number):
        clock = json.dumps({"batchTimestampMs": int(NOW_MS - days * DAY_MS)})
        offset = {"sourceVersion": 1, "reservoirVersion": version, "index": -1, "isStartingVersion": is_first}
        (checkpoints / "rollup/offsets" / str(number)).write_text(f"v1\n{clock}\n{json.dumps(offset)}")
        if number < first_number + committed:
            (checkpoints / "rollup/commits" / str(number)).write_text("v1\n{}")


def days_behind(checkpoints: Path, merged_days_ago: float | None = 0) -> float:
    merged_ms = None if merged_days_ago is None else int(NOW_MS - merged_days_ago * DAY_MS)
    return backlog_age_ms(checkpoints, NEWEST, merged_ms, NOW_MS) / DAY_MS


@pytest.mark.parametrize(
    ("batches", "committed", "merged_days_ago", "behind"),
    [
        ([(30, NEWEST + 1, False)], 1, 30, 0),  # it has read all changes, however old they are
        ([(9, 700, False), (8, 800, False), (7, 850, False)], 2, 0, 8),  # it does not run
        ([(9, 700, False), (8, 800, False), (7, 850, False)], 2, None, 8),  # and no session is there yet
        ([(0.02, 200, False), (0.01, 210, False)], 2, 6, 6),  # it catches up
        ([(9, 300, True), (8, 300, True)], 2, 0, 9),  # it still reads the table as it was at its first start
        ([(9, NEWEST + 1, False)], 0, 0, 9),  # its first micro-batch is not committed
        ([], 0, 0, 0),  # it has not started
        ([(-1, 800, False)], 1, None, 0),  # its clock was ahead
    ],
)
def test_a_rollup_is_behind_since_its_last_commit_or_the_newest_change_that_it_has_merged(
    tmp_path: Path,
    batches: list[tuple[float, int, bool]],
    committed: int,
    merged_days_ago: float | None,
    behind: float,
) -> None:
    write_rollup_logs(tmp_path, *batches, committed=committed)
    assert days_behind(tmp_path, merged_days_ago) == behind


def no_append_since(_version: int) -> bool:
    return False


def test_a_checkpoint_with_all_micro_batches_committed_and_all_changes_read_is_accepted(tmp_path: Path) -> None:
    write_rollup_logs(tmp_path, (1, 700, False), (0, NEWEST + 1, False), committed=2)
    asked: list[int] = []
    refuse_backlog(tmp_path, lambda version: bool(asked.append(version)))
    assert asked == [NEWEST + 1]


@pytest.mark.parametrize("query", ["sessionize", "archive", "rollup"])
def test_an_uncommitted_micro_batch_is_refused_since_it_would_write_deleted_rows_again(
    tmp_path: Path, query: str
) -> None:
    write_rollup_logs(tmp_path, (0, NEWEST + 1, False), committed=1)
    offsets = tmp_path / query / "offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / "41").touch()
    with pytest.raises(CheckpointError, match=f"micro-batch 41 of {query} is started and not committed: start the job"):
        refuse_backlog(tmp_path, no_append_since)


@pytest.mark.parametrize(("version", "is_first"), [(NEWEST, False), (NEWEST + 1, True)])
def test_changes_that_rollup_has_not_read_are_refused_since_it_would_write_deleted_rows_again(
    tmp_path: Path,
    version: int,
    is_first: bool,  # noqa: FBT001
) -> None:
    write_rollup_logs(tmp_path, (0, version, is_first), committed=1)
    with pytest.raises(CheckpointError, match="rollup has not read all of session_changes: start the job"):
        refuse_backlog(tmp_path, lambda version: version <= NEWEST)


def test_a_rollup_that_has_not_started_is_accepted(tmp_path: Path) -> None:
    refuse_backlog(tmp_path, lambda _: pytest.fail("it begins with the table as it is then"))


@pytest.mark.parametrize(
    "damaged", ["v2\n{}\n{}", 'v1\n{"batchTimestampMs":1}\n{"logOffset":3}', "v1\n{}\n-", "", "v1\n{"]
)
def test_a_log_that_cannot_be_parsed_is_refused(tmp_path: Path, damaged: str) -> None:
    write_rollup_logs(tmp_path, (9, 300, False), committed=1)
    (tmp_path / "rollup/offsets/40").write_text(damaged)
    for read in (days_behind, lambda checkpoints: refuse_backlog(checkpoints, no_append_since)):
        with pytest.raises(CheckpointError, match=r"not of a form known here|is not an offset log"):
            read(tmp_path)


def test_a_missing_log_entry_is_reported(tmp_path: Path) -> None:
    write_rollup_logs(tmp_path, (9, 300, False), (8, 310, False), committed=2)
    (tmp_path / "rollup/offsets/41").unlink()
    with pytest.raises(CheckpointError, match="41 cannot be read"):
        days_behind(tmp_path)


@pytest.mark.parametrize(
    ("retention", "behind", "expected"),
    [(7, 0, 7), (7, 5, 7), (7, 5.1, 14), (7, 12, 14), (7, 12.1, 21), (30, 20, 30), (30, 29, 60)],
)
def test_the_retention_covers_the_backlog_and_two_more_nights(retention: int, behind: float, expected: int) -> None:
    assert retention_covering_backlog_ms(retention * DAY_MS, int(behind * DAY_MS)) == expected * DAY_MS
