"""Runs the load generator for tests, and reads the files that it wrote."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sessionization_simulator.simulate_job import Summary, simulate
from sessionization_simulator.simulate_settings import SimulateSettings

NOW_MS = 1_767_297_600_000
"""2026-01-01T20:00:00Z"""

STREAMS = {"pc_sessions": "hostPcId", "console_sessions": "openPsid"}


@dataclass(frozen=True)
class Written:
    """A line: its stream, the name of its file, and its bytes without the line break."""

    stream: str
    file: str
    line: bytes

    @cached_property
    def fields(self) -> dict[str, Any]:
        return dict(json.loads(self.line))

    @cached_property
    def device(self) -> str:
        return str(self.fields[STREAMS[self.stream]])

    @cached_property
    def at_ms(self) -> int:
        return round(datetime.fromisoformat(self.fields["timestamp"]).timestamp() * 1_000)

    @cached_property
    def is_end(self) -> bool:
        return bool(self.fields["eventId"] == "ApplicationSessionEndBi")


def settings_of(output: Path, **options: Any) -> SimulateSettings:
    """Returns settings at pace max, with few files, and without dirt unless an option sets it."""
    defaults = {"output": output, "pace": "max", "dirt": 0, "file_interval": "5s"}
    return SimulateSettings.model_validate(defaults | options)


def play(output: Path, *, now_ms: int = NOW_MS, **options: Any) -> Summary:
    return simulate(settings_of(output, **options), now_ms=now_ms, report=lambda _: None)


def written(output: Path) -> list[Written]:
    """Returns every line, in the order of the files."""
    return [
        Written(path.parent.name, path.name, line)
        for path in sorted(output.glob("*/*.json"), key=lambda path: (path.name, path.parent.name))
        for line in path.read_bytes().splitlines()
    ]


def contents(output: Path) -> dict[str, bytes]:
    """Returns the bytes of every file by its path, hidden files too."""
    return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}
