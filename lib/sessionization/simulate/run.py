"""Play an evening into files, at a pace."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sessionization.simulate import wire
from sessionization.simulate.dirt import Dirt
from sessionization.simulate.evening import Evening
from sessionization.simulate.files import CONSOLE, PC, FileSink
from sessionization.simulate.fleet import Fleet
from sessionization.simulate.kinds import DirtKind
from sessionization.simulate.messages import Messages, Schedule, joined
from sessionization.simulate.pace import MAX
from sessionization.simulate.settings import SimulateSettings

_SECONDS_PER_REPORT = 5
_SOON_FILES = 8
_NEVER_MS = 2**62


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written: `messages` lines in `files` files, `dirt` of them by kind (lost ones besides)."""

    messages: int
    files: int
    live: int
    dirt: Mapping[DirtKind, int]


def simulate(
    settings: SimulateSettings,
    *,
    now_ms: int | None = None,
    stop: threading.Event | None = None,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Play one evening, and return when it is over, `settings.events` are written or `stop` is set.

    `now_ms` is the start instant of the run, by default the wall clock's. The same settings and start instant give
    the same files, byte for byte.

    Raises `ConfigurationError` when the output folder cannot be written into.
    """
    run = _Run(settings, time.time_ns() // 1_000_000 if now_ms is None else now_ms, report or _to_stderr)
    return run.play(stop or threading.Event())


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"simulate: {line}\n")
    sys.stderr.flush()


class _Run:
    def __init__(self, settings: SimulateSettings, now_ms: int, report: Callable[[str], None]) -> None:
        self._began_s = self._reported_s = time.monotonic()
        plan = settings.plan()
        self._settings = settings
        self._report = report
        self._sink = FileSink.open(settings.output, now_ms)
        self._fleet = Fleet(plan.devices, settings.console_share, settings.seed)
        # Faster than the wall clock, the evening begins as much earlier as it will catch up until it ends.
        self._start_ms = now_ms - max(plan.duration_ms - round(plan.duration_ms / settings.pace), 0)
        self._ends_ms = self._start_ms + plan.duration_ms
        file_ms = settings.file_interval if settings.pace == MAX else settings.file_interval * settings.pace
        self._file_ms = max(round(file_ms), 1)
        # A generator each, so that the same evening is played whatever the dirt.
        evening_rng, dirt_rng, self._rng = np.random.default_rng([settings.seed, now_ms]).spawn(3)
        self._evening = Evening(plan, self._start_ms, evening_rng)
        kinds = settings.dirt_kinds or tuple(DirtKind)
        self._dirt = Dirt(settings.dirt, kinds, plan.session_length_ms, self._ends_ms, dirt_rng)
        self._on_the_way = Schedule("deliver_ms", _SOON_FILES * self._file_ms)
        self._written_by_code = np.zeros(len(DirtKind) + 1, np.int64)

    def play(self, stop: threading.Event) -> Summary:
        until_ms = self._start_ms
        number = 0
        while not self._is_over(until_ms) and not stop.is_set():
            until_ms = self._next_instant(until_ms)
            messages = self._arriving(until_ms)
            self._wait_for(until_ms, stop)
            if not stop.is_set():
                self._write(messages, number)
                number += 1
                self._report_progress()
        self._report(f"done: {self._told()}, {self._sink.files:,} files; {self._told_dirt()}")
        return Summary(self._messages_written, self._sink.files, self._evening.live, self._dirt_counts())

    def _is_over(self, at_ms: int) -> bool:
        settings = self._settings
        if settings.events is not None and self._messages_written == settings.events:
            return True
        # With --events alone the duration is only a guess.
        return at_ms >= self._ends_ms and (settings.events is None or settings.duration is not None)

    @property
    def _messages_written(self) -> int:
        return int(self._written_by_code.sum())

    def _next_instant(self, at_ms: int) -> int:
        next_ms = at_ms + self._file_ms
        return next_ms if at_ms >= self._ends_ms else min(next_ms, self._ends_ms)

    def _arriving(self, until_ms: int) -> Messages:
        """What arrives before an instant; at the end of the evening also what is still on the way, but happened."""
        self._on_the_way.add(self._dirt.befall(self._evening.play(until_ms)))
        arriving = self._on_the_way.take(until_ms)
        if self._is_over(until_ms):
            late = self._on_the_way.take(_NEVER_MS)
            arriving = joined(arriving, late[late["at_ms"] < self._ends_ms])
        if self._settings.events is not None:
            arriving = arriving[: self._settings.events - self._messages_written]
        return arriving

    def _wait_for(self, at_ms: int, stop: threading.Event) -> None:
        """Wait until the wall clock has come to a simulated instant."""
        due_s = self._began_s + (at_ms - self._start_ms) / 1_000 / self._settings.pace
        stop.wait(max(due_s - time.monotonic(), 0))

    def _write(self, messages: Messages, number: int) -> None:
        is_console = self._fleet.are_consoles(messages["device"])
        for stream, some in ((PC, messages[~is_console]), (CONSOLE, messages[is_console])):
            if len(some):
                lines = wire.chunks(some, self._fleet, stream.device_field, self._rng)
                self._sink.write(stream, number, lines)
        self._written_by_code += np.bincount(messages["dirt"], minlength=len(self._written_by_code))

    def _report_progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= _SECONDS_PER_REPORT:
            self._reported_s = now_s
            self._report(self._told())

    def _told(self) -> str:
        rate = self._messages_written / max(time.monotonic() - self._began_s, 1e-3)
        return f"{self._messages_written:,} events written, {rate:,.0f}/s, {self._evening.live:,} sessions live"

    def _told_dirt(self) -> str:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in self._dirt_counts().items() if count)
        return f"dirt: {counts or 'none'}"

    def _dirt_counts(self) -> dict[DirtKind, int]:
        return {kind: int(self._written_by_code[kind.code]) + self._dirt.lost.get(kind, 0) for kind in DirtKind}
