"""Measure what a long Delta log costs each commit on a local disk: `python -m tests.bench.log_length`."""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from sessionization.spark.engine.session import spark_session
from tests.bench.jobs import say

_LENGTHS = (0, 1_000, 10_000, 50_000, 100_000, 200_000, 350_000)
_COMMITS_BEFORE = 110
"""So that the log has a checkpoint, before which Delta lists entries and does not read them."""
_APPENDS = 8


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        spark = spark_session(Path(temporary) / "engine.log")
        table = Path(temporary) / "table"
        rows = spark.range(10).coalesce(1)

        def append_s(version: int) -> float:
            began_s = time.monotonic()
            write = rows.write.format("delta").mode("append").option("txnAppId", "bench").option("txnVersion", version)
            write.save(str(table))
            return time.monotonic() - began_s

        for version in range(_COMMITS_BEFORE):
            append_s(version)
        entries = 0
        for length in _LENGTHS:
            for number in range(entries, length):  # entries of any name are listed; these sort before all versions
                (table / "_delta_log" / f"00000000000000000000.{number}.old").touch()
            entries = max(entries, length)
            took_s = [append_s(_COMMITS_BEFORE + length * _APPENDS + repeat) for repeat in range(_APPENDS)]
            say(f"{length:,} entries: {statistics.median(took_s):.2f} s ({min(took_s):.2f} to {max(took_s):.2f})")
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
