"""The backlog of `rollup`: the part of `session_changes` that it has not read yet.

`rollup` reads the table as a stream, version by version. It reads the files that each commit added, even if a
compaction has replaced them since, so these files and the table's log must still exist. Spark stores the position
of `rollup` in its checkpoint.
"""

import contextlib
from collections.abc import Callable, Iterator

from sessionization.durations import DAY_MS
from sessionization.errors import CheckpointError
from sessionization.hadoop_path import AnyPath
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


def backlog_age_ms(checkpoints: AnyPath, newest_version: int, merged_ms: int | None, now_ms: int) -> int:
    """Return an upper bound on the age of the oldest change that the rollup has not read; 0 if it has read all.

    Only the table's log has the commit time of a version, and it has to be read commit by commit, with one commit
    a second. Two instants bound the age instead. At the start of its last micro-batch the rollup had already
    reached its present position. And it has read everything that it has merged.

    Args:
        checkpoints: the sessionize job's folder.
        newest_version: the newest version of `session_changes`.
        merged_ms: the newest `updated_at` in `sessions`, None if it has no rows.
        now_ms: the current time.

    Raises `CheckpointError` where the checkpoint cannot be read.
    """
    query = checkpoints / ROLLUP
    with _as_checkpoint_error(checkpoints):
        committed, oldest = newest_committed_batch(query), oldest_started_batch(query)
        if oldest < 0:
            return 0  # the first micro-batch starts from the table's current snapshot
        batch = read_started_batch(query, max(committed, oldest))
        position = batch.sources[0]
        if committed >= 0 and int(position["reservoirVersion"]) > newest_version:
            return 0
        if committed < 0 or position["isStartingVersion"]:
            # The rollup still reads the table's snapshot from its first start, whose files are in no order of time.
            since_ms = read_started_batch(query, oldest).clock_ms
        else:
            since_ms = batch.clock_ms if merged_ms is None else min(batch.clock_ms, merged_ms)
    return max(now_ms - since_ms, 0)


def refuse_backlog(checkpoints: AnyPath, has_append_since: Callable[[int], bool]) -> None:
    """Check that no query has an uncommitted micro-batch, and that the rollup has read all of `session_changes`.

    The next start writes the missing rows, whatever was deleted meanwhile. The position of `archive` in the input
    is not checked, because a stop does not wait for it.

    Args:
        checkpoints: the sessionize job's folder.
        has_append_since: returns whether a given version of `session_changes`, or a later one, appended rows. The
            rollup skips versions that rewrite or delete rows.

    Raises `CheckpointError` otherwise, and where the checkpoint cannot be read.
    """
    if backlog := describe_backlog(checkpoints, has_append_since):
        msg = f"--checkpoints {checkpoints}: {backlog}: {_CATCH_UP}"
        raise CheckpointError(msg)


def describe_backlog(checkpoints: AnyPath, has_append_since: Callable[[int], bool]) -> str | None:
    """Describe the work that the queries have not finished; None if there is none.

    Arguments and errors are those of `refuse_backlog`.
    """
    for name in QUERIES:
        if has_unfinished_batch(checkpoints / name):
            return f"micro-batch {newest_started_batch(checkpoints / name)} of {name} is started and not committed"
    with _as_checkpoint_error(checkpoints):
        batch_id = newest_started_batch(checkpoints / ROLLUP)
        if batch_id < 0:
            return None  # the first micro-batch starts from the table's current snapshot
        position = read_started_batch(checkpoints / ROLLUP, batch_id).sources[0]
        version, reads_first_snapshot = int(position["reservoirVersion"]), bool(position["isStartingVersion"])
    has_more = reads_first_snapshot or has_append_since(version)
    return "rollup has not read all of session_changes" if has_more else None


def first_unread_version(checkpoints: AnyPath) -> int | None:
    """Return the first version of `session_changes` that the rollup has not read, as far as it has committed.

    None before its first commit, and while it reads the table as it was at its first start. Raises `CheckpointError`
    where the checkpoint cannot be read.
    """
    query = checkpoints / ROLLUP
    with _as_checkpoint_error(checkpoints):
        batch_id = newest_committed_batch(query)
        if batch_id < 0:
            return None
        position = read_started_batch(query, batch_id).sources[0]
        return None if position["isStartingVersion"] else int(position["reservoirVersion"])


def retention_covering_backlog_ms(retention_ms: int, behind_ms: int) -> int:
    """Return how long to retain the files and the log of `session_changes`: a multiple of `retention_ms`.

    The result covers the backlog (`behind_ms`) and two more nights, because maintenance runs once a night. Whole
    multiples change the table's properties rarely: each such change restarts a concurrent write of the stream.
    """
    return retention_ms * -(-(behind_ms + _TWO_NIGHTS_MS) // retention_ms)


@contextlib.contextmanager
def _as_checkpoint_error(checkpoints: AnyPath) -> Iterator[None]:
    """Raise `CheckpointError` where the body finds a checkpoint in an unknown format."""
    try:
        yield
    except (ValueError, LookupError, TypeError) as error:
        msg = f"--checkpoints {checkpoints} is not of a form known here ({error}): restore it from a backup"
        raise CheckpointError(msg) from error
