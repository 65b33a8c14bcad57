"""Spark's own logs of a query, as they lie in a checkpoint: which micro-batches were begun and done, and how far each reads.

Where they cannot be read, every function raises `CheckpointError`.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessionization.errors import CheckpointError

_VERSION = "v1"
_NO_OFFSET = "-"
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class StartedBatch:
    """A micro-batch as it was written down before it began.

    `partitions` is None where Spark did not keep their number. `sources` is by source how far it reads, as the source
    writes it; None where it reads nothing.
    """

    clock_ms: int
    partitions: int | None
    sources: tuple[Any, ...] = ()


def newest_started_batch(query: Path) -> int:
    """The newest micro-batch of a query that was begun, -1 before the first."""
    return max(_batches(query / "offsets"), default=-1)


def started_batches(query: Path) -> list[int]:
    """The micro-batches of a query that were begun and that its log still holds."""
    return sorted(_batches(query / "offsets"))


def oldest_started_batch(query: Path) -> int:
    """The oldest micro-batch of a query that its log still holds, -1 before the first."""
    return min(_batches(query / "offsets"), default=-1)


def newest_committed_batch(query: Path) -> int:
    """The newest micro-batch of a query that is done, -1 before the first."""
    return max(_batches(query / "commits"), default=-1)


def has_unfinished_batch(query: Path) -> bool:
    """Whether the newest micro-batch of a query that has stopped was begun and is not done: the next start repeats it."""
    return newest_started_batch(query) != newest_committed_batch(query)


def read_started_batch(query: Path, batch_id: int) -> StartedBatch:
    """What was written down of a micro-batch; raises `CheckpointError` too where that is of a form not known here."""
    file = query / "offsets" / str(batch_id)
    try:
        return _parsed(*file.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise _not_readable(file, error) from error
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        msg = f"{file} is not an offset log ({error}): restore the checkpoint from a backup, or give a new folder"
        raise CheckpointError(msg) from error


def remove_partial_first_entry(query: Path) -> None:
    """Remove what a full disk or a kill in its very first entry leaves of an offset log.

    Spark refuses for good to begin a query beside such a file, which it would pass over beside any later entry.
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


def _parsed(version: str, about: str, *sources: str) -> StartedBatch:
    if version != _VERSION:
        msg = f"its version is {version}"
        raise ValueError(msg)
    written = json.loads(about)
    partitions = written.get("conf", {}).get(_PARTITIONS)
    return StartedBatch(
        int(written["batchTimestampMs"]),
        None if partitions is None else int(partitions),
        tuple(None if text == _NO_OFFSET else json.loads(text) for text in sources),
    )


def _batches(log: Path) -> list[int]:
    try:
        return [int(entry.name) for entry in log.iterdir() if entry.name.isdigit()] if log.is_dir() else []
    except OSError as error:
        raise _not_readable(log, error) from error


def _not_readable(path: Path, error: OSError) -> CheckpointError:
    msg = f"{path} cannot be read ({error.strerror}): see to its permissions"
    return CheckpointError(msg)
