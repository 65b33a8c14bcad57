"""Spark's logs of a query, as far as they tell what was begun and done."""

from pathlib import Path


def begun_and_done(query: Path, *, begun: int, done: int, offset: str = "-") -> None:
    """Write that micro-batch `begun` was the last to begin, and `done` the last to be done."""
    for log in ("offsets", "commits"):
        (query / log).mkdir(parents=True, exist_ok=True)
    (query / "offsets" / str(begun)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{offset}')
    (query / "commits" / str(done)).write_text("v1\n{}")
