"""Play an evening into files or Kafka at the chosen pace."""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sessionization.clock import utc, wall_clock_ms
from sessionization.command_line.parser import say_on_stderr
from sessionization.errors import ConfigurationError
from sessionization.files import open_whole
from sessionization.say import Say
from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.evening import Messages
from sessionization_simulator.fleet import Fleet
from sessionization_simulator.message_text import Wording
from sessionization_simulator.players import Players
from sessionization_simulator.simulate_settings import SimulateSettings

if TYPE_CHECKING:
    from sessionization_simulator.kafka_sink import KafkaSink

_SECONDS_PER_REPORT = 5
_KAFKA_INTERVAL_MS = 100
_UNPACED_INTERVAL_MS = 60_000
"""Of the part of an evening that waits for nothing."""
_INTERVALS_PER_SPAN = 8
_LEAST_REPORTED_S = 1


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run: the messages written, the sessions live at its end, and a count for each kind of dirt.

    `dirt` also counts lost messages, which are not in `messages`.
    """

    messages: int
    live: int
    dirt: Mapping[DirtKind, int]


class FileSink:
    """Writes files `<output>/<stream>/<start of the run>-<number>.json`, in the order of their names.

    A file appears complete (`open_whole`). Its ingest time is its modification time: the moment of writing, at every
    pace.
    """

    def __init__(self, output: Path, wording: Wording, now_ms: int) -> None:
        self._output = output
        self._wording = wording
        self._number = 0
        self._run = f"{utc(now_ms).strftime('%Y%m%dT%H%M%S')}.{now_ms % 1_000:03d}Z"
        try:
            for stream in wording.streams:
                (output / stream).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            msg = f"--output {output} cannot be written ({error.strerror}): give another"
            raise ConfigurationError(msg) from error

    def write(self, messages: Messages) -> None:
        """Write one file per stream that has messages."""
        for stream, of_stream in self._wording.by_stream(messages):
            with open_whole(self._output / stream / f"{self._run}-{self._number:08d}.json", "xb") as file:
                file.writelines(line + b"\n" for _, line in self._wording.keyed_texts(of_stream, stream))
        self._number += 1

    def close(self) -> None:
        """Do nothing: a file is complete as soon as it is written."""

    def summary(self) -> str:
        return f"files in {self._output}"


def simulate(
    settings: SimulateSettings,
    *,
    now_ms: int | None = None,
    stop: threading.Event | None = None,
    report: Say | None = None,
) -> Summary:
    """Play one evening, and return when it is over or `stop` is set.

    `now_ms` is the start instant of the run, by default the wall clock's. The same settings and start instant give
    the same files, byte for byte. In Kafka they give the same messages, and the same order for each device.

    Raises `ConfigurationError` when the output folder, the brokers or the topics cannot be used, and `DeliveryError`
    when the brokers do not take messages any more.
    """
    run = _Run(settings, wall_clock_ms() if now_ms is None else now_ms, report or say_on_stderr("simulate"))
    return run.play(stop or threading.Event())


def _open_sink(settings: SimulateSettings, wording: Wording, now_ms: int) -> "FileSink | KafkaSink":
    if settings.output is not None:
        return FileSink(settings.output, wording, now_ms)
    try:
        from sessionization_simulator.kafka_sink import KafkaSink
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        msg = "--sink kafka needs the package confluent-kafka: install the extra kafka (docs/error-messages.md)"
        raise ConfigurationError(msg) from error
    return KafkaSink(settings, wording)


class _Run:
    def __init__(self, settings: SimulateSettings, now_ms: int, report: Say) -> None:
        self._began_s = self._reported_s = self._due_s = time.monotonic()
        plan, speed = settings.plan(), settings.speed
        fleet = Fleet(plan.devices, settings.seed)
        self._speed = speed
        self._sink = _open_sink(settings, Wording(settings.event_map, fleet), now_ms)
        self._report = report
        # At a pace above real-time the evening starts in the past, so that it ends now.
        past_ms = settings.past or max(plan.duration_ms - round(plan.duration_ms / speed), 0)
        self._start_ms = now_ms - past_ms
        # Only with --past a part of the evening is due before the run begins.
        self._paced_from_ms = now_ms if settings.past else self._start_ms
        self._ends_ms = self._start_ms + plan.duration_ms
        kafka_interval_ms = _UNPACED_INTERVAL_MS if speed == np.inf else _KAFKA_INTERVAL_MS
        interval_ms = settings.file_interval if settings.sink == "files" else kafka_interval_ms
        # Simulated time; at pace max both are equal.
        self._interval_ms = max(round(interval_ms if speed == np.inf else interval_ms * speed), 1)
        span_ms = _INTERVALS_PER_SPAN * self._interval_ms
        self._players = Players(settings, fleet, self._start_ms, now_ms, span_ms)
        self._written = 0

    def play(self, stop: threading.Event) -> Summary:
        until_ms = self._start_ms
        while until_ms < self._ends_ms:
            until_ms = self._next_instant(until_ms)
            messages = self._players.arriving(until_ms)
            self._wait_for(until_ms, stop)
            if stop.is_set():
                break
            self._sink.write(messages)
            self._written += len(messages)
            self._report_progress()
        self._sink.close()
        counts = self._players.dirt
        dirt = {kind: counts[kind] for kind in DirtKind}
        listed = ", ".join(f"{kind} {count:,}" for kind, count in dirt.items() if count)
        self._report(f"done: {self._progress_line()}, {self._sink.summary()}; dirt: {listed or 'none'}")
        return Summary(self._written, self._players.live, dirt)

    def _next_instant(self, at_ms: int) -> int:
        if at_ms < self._paced_from_ms:
            return min(at_ms + _UNPACED_INTERVAL_MS, self._paced_from_ms)
        return min(at_ms + self._interval_ms, self._ends_ms)

    def _wait_for(self, at_ms: int, stop: threading.Event) -> None:
        """Wait for a simulated instant, counted from the start on the wall clock, so that delays do not add up.

        The past is due at once.
        """
        self._due_s = self._began_s + max(at_ms - self._paced_from_ms, 0) / 1_000 / self._speed
        stop.wait(max(self._due_s - time.monotonic(), 0))

    def _report_progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= _SECONDS_PER_REPORT:
            self._reported_s = now_s
            self._report(self._progress_line())

    def _progress_line(self) -> str:
        now_s = time.monotonic()
        rate = self._written / max(now_s - self._began_s, 1e-3)
        line = f"{self._written:,} events written, {rate:,.0f}/s, {self._players.live:,} sessions live"
        behind_s = 0.0 if self._speed == np.inf else now_s - self._due_s  # at pace max nothing is due
        return f"{line}, {behind_s:,.1f} s behind" if behind_s >= _LEAST_REPORTED_S else line
