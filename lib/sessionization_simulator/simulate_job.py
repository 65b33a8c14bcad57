"""Play an evening into a sink at the chosen pace."""

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sessionization.clock import wall_clock_ms
from sessionization.command_line.parser import say_on_stderr
from sessionization.errors import ConfigurationError
from sessionization.optional_packages import how_to_install
from sessionization.say import Say
from sessionization_simulator.dirt import Dirt
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.evening import Evening
from sessionization_simulator.file_sink import FileSink
from sessionization_simulator.fleet import Fleet, Habits
from sessionization_simulator.message_schedule import Messages, Schedule, concatenate
from sessionization_simulator.simulate_settings import MAX, SimulateSettings

if TYPE_CHECKING:
    from sessionization_simulator.kafka_sink import KafkaSink

_SECONDS_PER_REPORT = 5
_PAST_INTERVAL_MS = 60_000
_INTERVALS_PER_SPAN = 8
_LEAST_REPORTED_S = 1
_NEVER_MS = 2**62


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a run: the messages written, the sessions live at its end, and a count for each kind of dirt.

    `dirt` also counts lost messages, which are not in `messages`.
    """

    messages: int
    live: int
    dirt: Mapping[DirtKind, int]


def simulate(
    settings: SimulateSettings,
    *,
    now_ms: int | None = None,
    stop: threading.Event | None = None,
    report: Say | None = None,
) -> Summary:
    """Play one evening, and return when it is over, `settings.events` are written or `stop` is set.

    `now_ms` is the start instant of the run, by default the wall clock's. The same settings and start instant give
    the same files, byte for byte. In Kafka they give the same messages, and the same order for each device.

    Raises `ConfigurationError` when the output folder, the brokers or the topics cannot be used, and `DeliveryError`
    when the brokers do not take messages any more.
    """
    run = _Run(settings, wall_clock_ms() if now_ms is None else now_ms, report or say_on_stderr("simulate"))
    return run.play(stop or threading.Event())


def _open_sink(settings: SimulateSettings, fleet: Fleet, now_ms: int) -> "FileSink | KafkaSink":
    if settings.output is not None:
        return FileSink(settings.output, fleet, now_ms)
    try:
        from sessionization_simulator.kafka_sink import KafkaSink
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        msg = f"--sink kafka needs the package confluent-kafka: {how_to_install('kafka')}"
        raise ConfigurationError(msg) from error
    return KafkaSink(settings, fleet)


def evening_and_dirt(settings: SimulateSettings, fleet: Fleet, start_ms: int, now_ms: int) -> tuple[Evening, Dirt]:
    """An evening that starts at `start_ms`, and what goes wrong in it; `now_ms` and the seed are the dice."""
    plan = settings.plan()
    # Separate generators, so that the dirt settings do not change the evening.
    evening_rng, dirt_rng = np.random.default_rng([settings.seed, now_ms]).spawn(2)
    evening = Evening(plan, start_ms, evening_rng, Habits(fleet) if settings.habits else None)
    kinds = settings.dirt_kinds or tuple(DirtKind)
    return evening, Dirt(settings.dirt, kinds, plan.session_length_ms, start_ms + plan.duration_ms, dirt_rng)


class _Run:
    def __init__(self, settings: SimulateSettings, now_ms: int, report: Say) -> None:
        self._began_s = self._reported_s = self._due_s = time.monotonic()
        plan = settings.plan()
        fleet = Fleet(plan.devices, settings.console_share, settings.seed)
        self._settings = settings
        self._sink = _open_sink(settings, fleet, now_ms)
        self._report = report
        # At a pace above real-time the evening starts in the past, so that it ends now.
        past_ms = settings.past or max(plan.duration_ms - round(plan.duration_ms / settings.pace), 0)
        self._start_ms = now_ms - past_ms
        # Only with --past a part of the evening is due before the run begins.
        self._paced_from_ms = now_ms if settings.past else self._start_ms
        self._ends_ms = self._start_ms + plan.duration_ms
        self._interval_ms = self._simulated_ms(settings.file_interval)
        self._evening, self._dirt = evening_and_dirt(settings, fleet, self._start_ms, now_ms)
        self._undelivered = Schedule("deliver_ms", _INTERVALS_PER_SPAN * self._interval_ms)
        self._written_by_code = np.zeros(len(DirtKind) + 1, np.int64)

    def play(self, stop: threading.Event) -> Summary:
        until_ms = self._start_ms
        while not self._is_over(until_ms) and not stop.is_set():
            from_ms, until_ms = until_ms, self._next_instant(until_ms)
            for due_ms, messages in self._steps(self._arriving(until_ms), from_ms, until_ms):
                self._wait_for(due_ms, stop)
                if stop.is_set():
                    break
                self._sink.write(messages)
                self._written_by_code += np.bincount(messages["dirt"], minlength=len(self._written_by_code))
                self._report_progress()
        self._sink.close()
        self._report(f"done: {self._progress_line()}, {self._sink.summary()}; {self._dirt_line()}")
        return Summary(self._messages_written, self._evening.live, self._dirt_counts())

    def _simulated_ms(self, wall_ms: int) -> int:
        """Convert wall clock time to simulated time; at pace max both are equal."""
        pace = self._settings.pace
        return max(round(wall_ms if pace == MAX else wall_ms * pace), 1)

    def _steps(self, arriving: Messages, from_ms: int, until_ms: int) -> Iterator[tuple[int, Messages]]:
        """Divide an interval's messages into steps of the sink; yield each part with the instant when it is due."""
        step_ms = self._sink.step_ms
        if step_ms is not None and self._settings.pace != MAX:
            begin = 0
            for due_ms in range(from_ms + self._simulated_ms(step_ms), until_ms, self._simulated_ms(step_ms)):
                end = int(np.searchsorted(arriving["deliver_ms"], due_ms))
                yield due_ms, arriving[begin:end]
                begin = end
            arriving = arriving[begin:]
        yield until_ms, arriving

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
        if at_ms < self._paced_from_ms:
            return min(at_ms + _PAST_INTERVAL_MS, self._paced_from_ms)
        next_ms = at_ms + self._interval_ms
        return next_ms if at_ms >= self._ends_ms else min(next_ms, self._ends_ms)

    def _arriving(self, until_ms: int) -> Messages:
        """Take the messages that arrive before an instant; at the end also later ones of events that have happened."""
        self._undelivered.add(self._dirt.apply(self._evening.play(until_ms)))
        arriving = self._undelivered.take(until_ms)
        if self._is_over(until_ms):
            late = self._undelivered.take(_NEVER_MS)
            arriving = concatenate(arriving, late[late["at_ms"] < self._ends_ms])
        if self._settings.events is not None:
            arriving = arriving[: self._settings.events - self._messages_written]
        return arriving

    def _wait_for(self, at_ms: int, stop: threading.Event) -> None:
        """Wait for a simulated instant, counted from the start on the wall clock, so that delays do not add up.

        The past is due at once.
        """
        elapsed_ms = max(at_ms - self._paced_from_ms, 0)
        self._due_s = self._began_s + elapsed_ms / 1_000 / self._settings.pace
        stop.wait(max(self._due_s - time.monotonic(), 0))

    def _report_progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self._reported_s >= _SECONDS_PER_REPORT:
            self._reported_s = now_s
            self._report(self._progress_line())

    def _progress_line(self) -> str:
        now_s = time.monotonic()
        rate = self._messages_written / max(now_s - self._began_s, 1e-3)
        line = f"{self._messages_written:,} events written, {rate:,.0f}/s, {self._evening.live:,} sessions live"
        behind_s = 0.0 if self._settings.pace == MAX else now_s - self._due_s  # at pace max nothing is due
        return f"{line}, {behind_s:,.1f} s behind" if behind_s >= _LEAST_REPORTED_S else line

    def _dirt_line(self) -> str:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in self._dirt_counts().items() if count)
        return f"dirt: {counts or 'none'}"

    def _dirt_counts(self) -> dict[DirtKind, int]:
        return {kind: int(self._written_by_code[kind.code]) + self._dirt.lost.get(kind, 0) for kind in DirtKind}
