"""Input files, and the checkpoints of queries that have read them, as Spark writes them."""

import json
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sessionization.durations import DAY_MS
from sessionization.ops.input_files import delete_read_files

NOW_MS = 1_763_726_400_000
OLD_MS = NOW_MS - 8 * DAY_MS


@dataclass(frozen=True, slots=True)
class Job:
    """A job's folders, with methods that write its input files and the logs of its queries."""

    input: Path
    checkpoints: Path

    def file(self, name: str, modified_ms: int = OLD_MS) -> Path:
        file = self.input / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}\n")
        os.utime(file, ns=(modified_ms * 1_000_000,) * 2)
        return file

    def query(
        self,
        name: str,
        logs: dict[str, Iterable[tuple[int, Path]]],
        *,
        read_to: int = 9,
        committed: int = 0,
        started: int = 0,
        sources: str = '{{"logOffset":{}}}\n1763726400',
        scheme: str = "file://",
        version: str = "v1",
    ) -> None:
        """Writes a query's checkpoint; `logs` maps a file of the source's log to (source batch, input file) pairs."""
        folder = self.checkpoints / name
        for log in ("offsets", "commits", "sources/0"):
            (folder / log).mkdir(parents=True, exist_ok=True)
        for batch in range(started + 1):
            text = sources.format(read_to if batch <= committed else read_to + 1)
            (folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchTimestampMs":{NOW_MS}}}\n{text}')
        for batch in range(committed + 1):
            (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        for log, entries in logs.items():
            lines = [
                json.dumps({"path": scheme + quote(str(file)), "timestamp": OLD_MS, "batchId": batch})
                for batch, file in entries
            ]
            (folder / "sources/0" / log).write_text("\n".join([version, *lines]))

    def delete(self, retention_ms: int = 7 * DAY_MS, stop: threading.Event | None = None) -> int:
        return delete_read_files(self.checkpoints, retention_ms, NOW_MS, stop or threading.Event())


def job_in(folder: Path) -> Job:
    """A job whose checkpoint has no query yet."""
    job = Job(folder / "in put", folder / "checkpoints")
    job.checkpoints.mkdir()
    content = {"id": "i", "pinned": {"source": "files", "input": str(job.input)}}
    (job.checkpoints / "layout.json").write_text(json.dumps(content))
    return job
