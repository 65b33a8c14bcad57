"""Spark's own logs of a query in a checkpoint: started and committed micro-batches, and the end position of each.

Every function raises `CheckpointError` where it cannot read a log.
"""

import json
from dataclasses import dataclass
from typing import Any

from sessionization.errors import CheckpointError
from sessionization.files import newest_number
from sessionization.hadoop_path import AnyPath

_VERSION = "v1"
_NO_OFFSET = "-"
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class StartedBatch:
    """A micro-batch as Spark logged it before the start.

    `partitions` is None where Spark did not store their number. `sources` has an end position per source, as the
    source writes it, or None where the micro-batch reads nothing of the source.
    """

    clock_ms: int
    partitions: int | None
    sources: tuple[Any, ...] = ()


def newest_started_batch(query: AnyPath) -> int:
    """Return the newest started micro-batch of a query, -1 before the first."""
    return _newest(query / "offsets")


def oldest_started_batch(query: AnyPath) -> int:
    """Return the oldest started micro-batch of a query that its log still holds, -1 before the first."""
    return min(_batch_ids(query / "offsets"), default=-1)


def newest_committed_batch(query: AnyPath) -> int:
    """Return the newest committed micro-batch of a query, -1 before the first."""
    return _newest(query / "commits")


def has_unfinished_batch(query: AnyPath) -> bool:
    """Return whether a stopped query has an uncommitted micro-batch, which the next start repeats."""
    return newest_started_batch(query) != newest_committed_batch(query)


def read_started_batch(query: AnyPath, batch_id: int) -> StartedBatch:
    """Read a started micro-batch from the log; raises `CheckpointError` also for an unknown format."""
    file = query / "offsets" / str(batch_id)
    try:
        return _parse_entry(*file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise _not_readable(file, error) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        msg = f"{file} is not an offset log ({error}): restore the checkpoint from a backup, or give a new folder"
        raise CheckpointError(msg) from error


def remove_partial_first_entry(query: AnyPath) -> None:
    """Remove the partial files of an offset log whose very first entry was cut off by a full disk or a kill.

    Spark never starts a query again whose log holds only such a file. Next to a later entry Spark ignores it.
    """
    offsets = query / "offsets"
    try:
        if offsets.is_dir() and newest_started_batch(query) < 0:
            for entry in offsets.iterdir():
                if entry.name.startswith(".") and entry.name.endswith((".tmp", ".tmp.crc")):
                    entry.unlink()
    except OSError as error:
        msg = f"{offsets} cannot be cleared of what a cut-off start left ({error.strerror}): see to its permissions"
        raise CheckpointError(msg) from error


def _parse_entry(version: str, metadata_json: str, *sources: str) -> StartedBatch:
    if version != _VERSION:
        msg = f"its version is {version}; spark.sql.streaming.offsetLog.formatVersion=1 writes {_VERSION}"
        raise ValueError(msg)
    metadata = json.loads(metadata_json)
    partitions = metadata.get("conf", {}).get(_PARTITIONS)
    return StartedBatch(
        int(metadata["batchTimestampMs"]),
        None if partitions is None else int(partitions),
        tuple(None if text == _NO_OFFSET else json.loads(text) for text in sources),
    )


def _newest(log: AnyPath) -> int:
    try:
        return newest_number(log, _batch_ids(log))
    except OSError as error:
        raise _not_readable(log, error) from error


def _batch_ids(log: AnyPath) -> list[int]:
    try:
        return [int(entry.name) for entry in log.iterdir() if entry.name.isdigit()] if log.is_dir() else []
    except OSError as error:
        raise _not_readable(log, error) from error


def _not_readable(path: AnyPath, error: OSError) -> CheckpointError:
    msg = f"{path} cannot be read ({error.strerror}): see to its permissions"
    return CheckpointError(msg)
