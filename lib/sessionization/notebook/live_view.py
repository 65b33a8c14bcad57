"""The job with a live picture for a person: live sessions and heartbeat lateness, redrawn every few seconds."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from matplotlib.figure import Figure
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.job.summary import Summary, count_live_sessions, summary_lines
from sessionization.notebook import chart_style
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation

DEFAULT_RUN_MS: Final = 120_000
"""The duration of a person's run without `run-for`, so that a closed window never leaves a stream running."""
_MOST_POINTS = 900
_MOST_NOTES = 4

Display = Callable[[Any], None]


@dataclass
class LiveView:
    """The data of the picture since the start of the run.

    The stream's threads call `begin` and `add`; the notebook's thread counts live sessions and draws.
    """

    where: tuple[SparkSession, TableLocation] | None = None
    live: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))
    lateness: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))

    def begin(self, spark: SparkSession, location: TableLocation) -> None:
        self.where = spark, location

    def count_live(self, now_ms: int) -> None:
        """Count the sessions that are live now; does nothing before the run has begun."""
        if self.where is None:
            return
        # A table may be changing, or the engine may have ended: then the run itself reports the error.
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            self.live.append((now_ms, count_live_sessions(*self.where)))

    def add(self, progress: BatchProgress) -> None:
        """Add the lateness that a micro-batch of the query `sessionize` reports; ignores other queries."""
        if progress.query != SESSIONIZE:
            return
        if progress.lateness.p50_ms is not None and progress.lateness.p99_ms is not None:
            self.lateness.append((progress.processed_ms, progress.lateness.p50_ms, progress.lateness.p99_ms))

    def picture(self) -> Figure:
        """Draw live sessions above heartbeat lateness, both over processing time."""
        figure, (above, below) = chart_style.new_figure(2, 2.5, share_x=True)
        chart_style.set_titles(above, "Live sessions", y="sessions")
        chart_style.set_titles(below, "Heartbeats: from due to table", x="time (UTC)", y="late by (ms)")
        live, lateness = list(self.live), list(self.lateness)
        if live:
            above.step(
                chart_style.to_datetimes([at_ms for at_ms, _ in live]),
                [count for _, count in live],
                where="post",
                color=chart_style.BLUE,
            )
            chart_style.whole_numbers(above, y=True)
            chart_style.start_at_zero(above)
        else:
            chart_style.write_no_rows(above, "none yet")
        if lateness:
            times = chart_style.to_datetimes([at_ms for at_ms, _, _ in lateness])
            below.plot(
                times, [p50 for _, p50, _ in lateness], ".-", color=chart_style.GREEN, label="p50 of a micro-batch"
            )
            below.plot(times, [p99 for _, _, p99 in lateness], ".-", color=chart_style.RED, label="p99")
            chart_style.whole_numbers(below, y=True)
            chart_style.start_at_zero(below)
            below.legend(frameon=False, ncols=2)
        else:
            chart_style.write_no_rows(below, "no heartbeat yet")
        if live or lateness:
            chart_style.time_axis(below)
        return figure


@dataclass
class _RunLines:
    """The lines that the run reports: the last progress line, and every other line once.

    The notes are shown again at the end, because they may still matter then.
    """

    notes: list[str] = field(default_factory=list)
    progress: deque[str] = field(default_factory=lambda: deque(maxlen=1))

    def add_note(self, line: str) -> None:
        if line not in self.notes:
            self.notes.append(line)

    def latest(self) -> list[str]:
        return [*self.notes[-_MOST_NOTES:], *self.progress]


class PictureOutput(Protocol):
    """Shows pictures of the run; each replaces the one before."""

    def show(self, figure: Figure, lines: list[str]) -> None: ...


class CellOutput:
    """Shows pictures in the output of the running cell."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def show(self, figure: Figure, lines: list[str]) -> None:
        from IPython.display import clear_output

        clear_output(wait=True)
        self._display(figure)
        print("\n".join(lines))  # noqa: T201 - a notebook's output


def run_and_show(settings: SessionizeSettings, output: PictureOutput, every_s: float = 2.0) -> Summary:
    """Run the job, and redraw live sessions and heartbeat lateness every `every_s` seconds.

    The run ends after `settings.run_for_ms`, or after `DEFAULT_RUN_MS` if that is not set. The notebook's stop button
    also ends it gracefully.

    Raises what `run` raises.
    """
    view, stop, lines = LiveView(), threading.Event(), _RunLines()
    settings = _with_time_limit(settings, lines.add_note)
    callbacks = JobCallbacks(lines.add_note, (view.add,), view.begin, say_progress=lines.progress.append)
    with ThreadPoolExecutor(1, thread_name_prefix="stream") as threads:
        running = threads.submit(run, settings, stop, callbacks)
        try:
            while not running.done():
                try:
                    wait([running], every_s)
                    view.count_live(wall_clock_ms())
                    output.show(view.picture(), lines.latest())
                except KeyboardInterrupt:
                    stop.set()
        finally:
            # An error of the picture must not leave a stream running.
            stop.set()
    summary = running.result()
    output.show(view.picture(), [*lines.notes, *summary_lines(summary)])
    return summary


def _with_time_limit(settings: SessionizeSettings, say: Say) -> SessionizeSettings:
    if settings.run_for_ms is not None:
        return settings
    say(f"run-for is not set: this run stops after {DEFAULT_RUN_MS // 60_000} minutes")
    return settings.model_copy(update={"run_for_ms": DEFAULT_RUN_MS})
