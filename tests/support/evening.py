"""A dirty evening, generated before the job runs and released file by file, with the same bytes and times each run."""

import os
from collections import deque
from pathlib import Path
from typing import Any

from sessionization_simulator.simulate_job import Summary, simulate
from sessionization_simulator.simulate_settings import SimulateSettings

ENDS_MS = 1_767_225_780_000
"""2026-01-01T00:03:00Z: shortly after midnight, so that the messages of a longer evening have two ingest dates."""

# Fractions of a millisecond must not matter: ingest times are truncated to whole milliseconds.
_BEYOND_MS_NS = 999_999


class Evening:
    """The files of a simulated evening, hidden from the job until they are released."""

    def __init__(self, staging: Path, ends_ms: int = ENDS_MS, **options: Any) -> None:
        settings = SimulateSettings.model_validate({"output": staging, "pace": "max"} | options)
        self.written: Summary = simulate(settings, now_ms=ends_ms, report=lambda _: None)
        files = sorted(staging.glob("*/*.json"), key=place_in_evening)
        self._waiting = deque(files)
        last = int(files[-1].stem.rpartition("-")[2])
        for path in files:
            ingested_ms = ends_ms - (last - int(path.stem.rpartition("-")[2])) * settings.file_interval
            os.utime(path, ns=(0, ingested_ms * 1_000_000 + _BEYOND_MS_NS))

    def release(self, folder: Path, files: int | None = None) -> None:
        """Move the next `files` files, or all remaining ones, into the input folder; each appears at once."""
        for _ in range(len(self._waiting) if files is None else min(files, len(self._waiting))):
            path = self._waiting.popleft()
            (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
            path.rename(folder / path.parent.name / path.name)

    def __len__(self) -> int:
        """The number of files that are not released yet."""
        return len(self._waiting)


def place_in_evening(file: Path) -> tuple[str, str]:
    """The place of a file in the order in which an evening's files are released."""
    return file.name, file.parent.name
