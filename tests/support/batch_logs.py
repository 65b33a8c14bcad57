"""Spark's logs of a query: which micro-batches were started and which committed."""

from pathlib import Path


def write_batch_logs(query_folder: Path, *, started: int, committed: int, offset: str = "-") -> None:
    """Write logs in which `started` is the last micro-batch started and `committed` the last one committed."""
    for log in ("offsets", "commits"):
        (query_folder / log).mkdir(parents=True, exist_ok=True)
    (query_folder / "offsets" / str(started)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{offset}')
    (query_folder / "commits" / str(committed)).write_text("v1\n{}")
