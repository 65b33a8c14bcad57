"""What `rollup` has not read yet of `session_changes`: the files and the log that it will ask for must still be there.

It reads the table as a stream, version by version: the files that each commit added, also those that a compaction has
replaced since. How far it is, Spark keeps in its checkpoint.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.spark.checkpoint.folder import QUERIES, ROLLUP
from sessionization.spark.checkpoint.spark_logs import (
    has_unfinished_batch,
    newest_committed_batch,
    newest_started_batch,
    oldest_started_batch,
    read_started_batch,
)

_TWO_NIGHTS_MS = 2 * DAY_MS
_CATCH_UP = "start the job, let it catch up, stop it gracefully (SIGTERM, or --run-for 2m), and try again"


def backlog_age_ms(checkpoints: Path, newest_version: int, merged_ms: int | None, now_ms: int) -> int:
    """How old the oldest part of `session_changes` that the rollup has not read may be: at least its age, 0 if it has read all.

    When a version was committed only the table's log could tell, commit by commit, of which there is one a second. So it
    is bounded: the rollup was as far as it is when it began its last micro-batch, and it has read what it has merged.

    Args:
        checkpoints: the sessionize job's folder.
        newest_version: of `session_changes`.
        merged_ms: the newest `updated_at` in `sessions`, None where there is none.
        now_ms: the time now.

    Raises `CheckpointError` where the checkpoint cannot be read.
    """
    query = checkpoints / ROLLUP
    with _one_line(checkpoints):
        done, oldest = newest_committed_batch(query), oldest_started_batch(query)
        if oldest < 0:
            return 0  # it begins with the table as it is then
        at = read_started_batch(query, max(done, oldest))
        reached = at.sources[0]
        if done >= 0 and int(reached["reservoirVersion"]) > newest_version:
            return 0
        if done < 0 or reached["isStartingVersion"]:
            # It is at the table as it was when it began, whose files are in no order of time.
            since_ms = read_started_batch(query, oldest).clock_ms
        else:
            since_ms = at.clock_ms if merged_ms is None else min(at.clock_ms, merged_ms)
    return max(now_ms - since_ms, 0)


def refuse_backlog(checkpoints: Path, has_append_since: Callable[[int], bool]) -> None:
    """Check that the queries are done with all that they have begun, and the rollup with all rows that `session_changes` got.

    What is not done is written at the next start, whatever was deleted meanwhile. How far `archive` is in the input is not
    looked at: a stop does not wait for that.

    Args:
        checkpoints: the sessionize job's folder.
        has_append_since: whether a version of `session_changes`, or a later one, appended rows. What rewrites or deletes
            rows the rollup passes over.

    Raises `CheckpointError` otherwise, and where the checkpoint cannot be read.
    """
    if left := describe_backlog(checkpoints, has_append_since):
        msg = f"--checkpoints {checkpoints}: {left}: {_CATCH_UP}"
        raise CheckpointError(msg)


def describe_backlog(checkpoints: Path, has_append_since: Callable[[int], bool]) -> str | None:
    """What of it the queries have not done, None where all is; arguments and errors as for `refuse_backlog`."""
    for name in QUERIES:
        if has_unfinished_batch(checkpoints / name):
            return f"micro-batch {newest_started_batch(checkpoints / name)} of {name} is begun and not done"
    return "rollup has not read all of session_changes" if has_unmerged_changes(checkpoints, has_append_since) else None


def has_unmerged_changes(checkpoints: Path, has_append_since: Callable[[int], bool]) -> bool:
    """Whether `session_changes` has rows that the rollup has not begun to read; arguments and errors as for `refuse_backlog`."""
    with _one_line(checkpoints):
        number = newest_started_batch(checkpoints / ROLLUP)
        if number < 0:
            return False  # it begins with the table as it is then
        reached = read_started_batch(checkpoints / ROLLUP, number).sources[0]
        version, is_at_first = int(reached["reservoirVersion"]), bool(reached["isStartingVersion"])
    return is_at_first or has_append_since(version)


def retention_covering_backlog_ms(retention_ms: int, behind_ms: int) -> int:
    """How long the files and the log of `session_changes` are kept: twice, three times … as long where the rollup is behind.

    Long enough for two more nights, for maintenance comes once a night. In whole steps, for every change of a table's
    properties makes a write of the stream that it meets begin anew.
    """
    return retention_ms * -(-(behind_ms + _TWO_NIGHTS_MS) // retention_ms)


@contextlib.contextmanager
def _one_line(checkpoints: Path) -> Iterator[None]:
    """Tell what is wrong with a checkpoint that is of another form; raises `CheckpointError`."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        msg = f"--checkpoints {checkpoints} is not of a form known here ({error}): restore it from a backup"
        raise CheckpointError(msg) from error
