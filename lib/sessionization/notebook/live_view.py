"""The job with a live picture for a person: live sessions and heartbeat lateness, redrawn every few seconds."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

from matplotlib.figure import Figure
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.job.summary import count_live_sessions
from sessionization.notebook import chart_style
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation

DEFAULT_RUN_MS: Final = 120_000
"""The duration of a person's run without `run-for`, so that a closed window never leaves a stream running."""
_MOST_POINTS = 900
_MOST_NOTES = 4


@dataclass
class LiveView:
    """The data of the picture since the start of the run: when, and live sessions, or p50 and p99 of lateness.

    The stream's threads call `add`; the notebook's thread counts live sessions and draws.
    """

    live: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))
    lateness: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))

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


def run_and_show(settings: SessionizeSettings, show: Callable[[Figure, list[str]], None], every_s: float = 2.0) -> None:
    """Run the job, and redraw live sessions and heartbeat lateness every `every_s` seconds.

    `show` replaces the picture and the lines below it. The run ends after `settings.run_for_ms`, or after
    `DEFAULT_RUN_MS` if that is not set. The notebook's stop button also ends it gracefully.

    Raises what `run` raises.
    """
    view, stop = LiveView(), threading.Event()
    notes, progress = dict[str, None](), deque[str](maxlen=1)  # each note once
    opened: list[tuple[SparkSession, TableLocation]] = []
    if settings.run_for_ms is None:
        notes[f"run-for is not set: this run stops after {DEFAULT_RUN_MS // 60_000} minutes"] = None
        settings = settings.model_copy(update={"run_for_ms": DEFAULT_RUN_MS})
    callbacks = JobCallbacks(
        notes.setdefault, (view.add,), lambda *where: opened.append(where), say_progress=progress.append
    )
    with ThreadPoolExecutor(1, thread_name_prefix="stream") as threads:
        running = threads.submit(run, settings, stop, callbacks)
        try:
            while not running.done():
                try:
                    wait([running], every_s)
                    # A table may be changing, or the engine may have ended: then the run itself reports the error.
                    with contextlib.suppress(PySparkException, Py4JError, OSError):
                        view.live.extend((wall_clock_ms(), count_live_sessions(*where)) for where in opened)
                    show(view.picture(), [*list(notes)[-_MOST_NOTES:], *progress])
                except KeyboardInterrupt:
                    stop.set()
        finally:
            # An error of the picture must not leave a stream running.
            stop.set()
    show(view.picture(), [*notes, *running.result()])  # the notes may still matter
