"""The job for a person who looks on: live sessions and the lateness of heartbeats, drawn again and again."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from matplotlib.figure import Figure
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.notebook import style
from sessionization.settings import SessionizeSettings
from sessionization.spark.checkpoint import SESSIONIZE
from sessionization.spark.progress import Progress, wall_clock_ms
from sessionization.spark.run import Summary, Watch, run, summary_lines
from sessionization.spark.table_home import TableHome
from sessionization.spark.totals import live_now

PERSONS_RUN_MS: Final = 120_000
"""How long it runs for a person who says nothing of it: nobody should leave a stream running by closing a window."""
_REFRESH_S = 2.0
_MOST_POINTS = 900

Say = Callable[[str], None]
Display = Callable[[Any], None]


@dataclass
class LiveView:
    """What has been seen since the run began; the queries' threads add, the notebook's thread draws."""

    live: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))
    lateness: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))
    events: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_POINTS))

    def add(self, progress: Progress) -> None:
        if progress.query != SESSIONIZE:
            return
        self.events.append((progress.processed_ms, progress.rows_in))
        if progress.lateness.p50_ms is not None and progress.lateness.p99_ms is not None:
            self.lateness.append((progress.processed_ms, progress.lateness.p50_ms, progress.lateness.p99_ms))

    def picture(self) -> Figure:
        """Live sessions above, and how late heartbeats came below; both over the time of processing."""
        figure, (above, below) = style.figure_of(2, 2.5, share_x=True)
        style.titled(above, "Live sessions", y="sessions")
        style.titled(below, "Heartbeats: from due to table", x="time (UTC)", y="late by (ms)")
        live, lateness = list(self.live), list(self.lateness)
        if live:
            above.step(
                style.instants([at for at, _ in live]), [count for _, count in live], where="post", color=style.BLUE
            )
            style.whole_numbers(above, y=True)
            style.from_zero(above)
        else:
            style.without_rows(above, "none yet")
        if lateness:
            times = style.instants([at for at, _, _ in lateness])
            below.plot(times, [p50 for _, p50, _ in lateness], ".-", color=style.GREEN, label="p50 of a micro-batch")
            below.plot(times, [p99 for _, _, p99 in lateness], ".-", color=style.RED, label="p99")
            style.whole_numbers(below, y=True)
            style.from_zero(below)
            style.time_axis(below)
            below.legend(frameon=False, ncols=2)
        else:
            style.without_rows(below, "no heartbeat yet")
        return figure


class Output(Protocol):
    """Where pictures of the run go, each in the place of the one before."""

    def show(self, figure: Figure, lines: list[str]) -> None: ...


class CellOutput:
    """The output of the cell that runs."""

    def __init__(self, display: Display) -> None:
        self._display = display

    def show(self, figure: Figure, lines: list[str]) -> None:
        from IPython.display import clear_output

        clear_output(wait=True)
        self._display(figure)
        print("\n".join(lines))  # noqa: T201 - a notebook's output


def run_and_show(settings: SessionizeSettings, output: Output, say: Say) -> Summary:
    """Run for `settings.run_for`, or a while, and draw live sessions and lateness again and again.

    The notebook's stop button ends it as gracefully.

    Raises what `run` raises.
    """
    settings = _for_a_person(settings, say)
    view, stop, last_lines = LiveView(), threading.Event(), deque[str](maxlen=4)
    started: list[tuple[SparkSession, TableHome]] = []
    ended: list[Summary | BaseException] = []

    def work() -> None:
        watch = Watch(last_lines.append, lambda spark, home: started.append((spark, home)), view.add)
        try:
            ended.append(run(settings, stop, watch))
        except BaseException as error:  # noqa: BLE001 - raised in the notebook's own thread
            ended.append(error)

    worker = threading.Thread(target=work, name="stream")
    worker.start()
    try:
        while worker.is_alive():
            try:
                worker.join(_REFRESH_S)
                _look(started, view)
                output.show(view.picture(), list(last_lines))
            except KeyboardInterrupt:
                say("stopping")
                stop.set()
    finally:  # whatever went wrong with the picture, no stream is left behind
        stop.set()
        worker.join()
    outcome = ended[0]
    if isinstance(outcome, BaseException):
        raise outcome
    output.show(view.picture(), summary_lines(outcome))
    return outcome


def _for_a_person(settings: SessionizeSettings, say: Say) -> SessionizeSettings:
    if settings.run_for is not None:
        return settings
    say(f"run-for is not set: this run stops after {PERSONS_RUN_MS // 60_000} minutes")
    return settings.model_copy(update={"run_for": PERSONS_RUN_MS})


def _look(started: list[tuple[SparkSession, TableHome]], view: LiveView) -> None:
    if not started:
        return
    try:
        live = live_now(*started[0])
    except PySparkException:  # the tables are being changed: the next look will do
        return
    view.live.append((wall_clock_ms(), live))
