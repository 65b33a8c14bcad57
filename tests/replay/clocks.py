"""Clocks of replayed micro-batches, for tests."""

import tempfile
from pathlib import Path

from sessionization.spark.replay.micro_batch_clock import Changed, ClockBuilder, Known, MicroBatchClock


def build_clock(
    changed: Changed, known: Known, *, until_ms: int, is_whole: bool = True, goes_on: bool = False
) -> MicroBatchClock:
    """A clock from all rows of the stream's tables at once."""
    with tempfile.TemporaryDirectory() as folder:  # the mapped files stay readable
        builder = ClockBuilder(Path(folder))
        builder.add_earlier(changed, known)
        stored = builder.build(until_ms=until_ms, is_whole=is_whole, goes_on=goes_on)
        return stored.load(lambda name: str(Path(folder) / name))
