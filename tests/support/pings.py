"""Signs of life for a simulated evening: each player sends pings, and some lose the network for a while.

A player whose End is lost has crashed: the pings end too. A lost network holds pings back until it is there again.
"""

import json
import random
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sessionization.core.events import Start
from tests.support.wire import Fields, lines_of, read

_EVERY_MS = (1_000, 4_000)
_CRASHED_AFTER_MS = 20_000
_AWAY_MS = (5_000, 60_000)
_SHARE_AWAY = 0.25
_SHARE_REPEATED = 0.05
_REPEATED_AFTER_MS = 5_000


@dataclass
class _Session:
    """A session's valid messages: the fields of one of them, and the times of its Start and its End."""

    fields: dict[str, Any]
    start_ms: int | None = None
    end_ms: int | None = None


def add_pings(staging: Path, events: Fields, seed: int, ends_ms: int, file_interval_ms: int) -> None:
    """Add pings to the files of an evening that ends at `ends_ms`; the map `events` has its fields at the top."""
    files = sorted(staging.glob("*/*.json"), key=lambda file: file.name)
    run, _, last = files[-1].stem.rpartition("-")
    begins_ms = ends_ms - (int(last) + 1) * file_interval_ms
    rng = random.Random(seed)
    lines = defaultdict[tuple[str, int], list[str]](list)
    for (stream, _, _), session in sorted(_sessions(files, events, ends_ms).items()):
        for at_ms, delivered_ms in _pings(session, rng):
            if at_ms >= begins_ms:
                text = _text(session.fields, events, at_ms)
                lines[stream, (delivered_ms - begins_ms) // file_interval_ms].append(text)
    for (stream, number), texts in lines.items():
        if number <= int(last):
            with (staging / stream / f"{run}-{number:08d}.json").open("a", encoding="utf-8") as file:
                file.writelines(f"{text}\n" for text in texts)


def _sessions(files: list[Path], events: Fields, ends_ms: int) -> dict[tuple[str, str, int], _Session]:
    """The sessions by stream, device and id."""
    sessions: dict[tuple[str, str, int], _Session] = {}
    for file in files:
        for line in lines_of(file.read_bytes()):
            result = read(file.parent.name, line, ends_ms, events)
            if isinstance(result, tuple):
                device_id, event = result
                key = file.parent.name, device_id, int(event.session_id)
                session = sessions.setdefault(key, _Session(json.loads(line)))
                if isinstance(event, Start):
                    session.start_ms = event.at_ms
                else:
                    session.end_ms = event.at_ms
    return sessions


def _pings(session: _Session, rng: random.Random) -> list[tuple[int, int]]:
    """When pings of a session happen, and when they arrive."""
    length_ms = round(rng.expovariate(1 / _CRASHED_AFTER_MS))
    start_ms, end_ms = session.start_ms, session.end_ms
    if start_ms is None:
        assert end_ms is not None
        start_ms = end_ms - length_ms
    if end_ms is None:
        end_ms = start_ms + length_ms
    away_ms = start_ms + round(rng.random() * (end_ms - start_ms))
    back_ms = away_ms + (rng.randrange(*_AWAY_MS) if rng.random() < _SHARE_AWAY else 0)
    pings = []
    at_ms = start_ms + rng.randrange(*_EVERY_MS)
    while at_ms < end_ms:
        arrives_ms = back_ms if away_ms <= at_ms < back_ms else at_ms
        pings.append((at_ms, arrives_ms))
        if rng.random() < _SHARE_REPEATED:
            pings.append((at_ms, arrives_ms + _REPEATED_AFTER_MS))
        at_ms += rng.randrange(*_EVERY_MS)
    return pings


def _text(fields: dict[str, Any], events: Fields, at_ms: int) -> str:
    [kind, *_] = events["kinds"]["activity"]
    time = datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")
    return json.dumps(fields | {events["event"]: kind, events["event_time"]["path"]: time})
