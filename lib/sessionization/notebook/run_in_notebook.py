"""The job in a notebook: a task just runs it; a person also sees a live chart, and the run is limited in time."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from logging.handlers import RotatingFileHandler
from typing import Any, Final

import pandas as pd

from sessionization.clock import utc, wall_clock_ms
from sessionization.command_line.widgets import WidgetBar, is_run_by_a_job
from sessionization.databricks import driver_log_folder
from sessionization.job import sessionize_job
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress

DEFAULT_RUN_MS: Final = 120_000
"""The duration of a person's run without `run-for`, so that a closed window never leaves a stream running."""
PROGRESS_LOG = "sessionize.log"
_MOST_BYTES, _OLDER_FILES = 10_000_000, 3
_MOST_POINTS, _MOST_NOTES = 900, 4
_LIVE, _P50, _P99 = "live sessions", "heartbeats late by (ms), p50", "p99"


def run_in_notebook(
    settings: SessionizeSettings,
    widgets: WidgetBar,
    display: Callable[[Any], None],
    say: Say = print,
) -> None:
    """Run the job: as a task until it is stopped, without a chart; for a person with a chart and a time limit.

    A task's progress goes to a file on the driver, which is rolled. A cell's output is limited, and a progress line
    every few seconds would reach the limit within days.
    """
    if is_run_by_a_job(widgets):
        file = driver_log_folder() / PROGRESS_LOG
        say(f"progress is in {file} on the driver")
        log = RotatingFileHandler(file, maxBytes=_MOST_BYTES, backupCount=_OLDER_FILES, encoding="utf-8", delay=True)
        sessionize_job.run_and_print_summary(settings, say, lambda line: log.emit(logging.makeLogRecord({"msg": line})))
        return

    def show(rows: pd.DataFrame, lines: list[str]) -> None:
        import matplotlib.pyplot as plt
        from IPython.display import clear_output

        clear_output(wait=True)
        if not rows.empty:
            figure = rows.plot(subplots=[(_LIVE,), (_P50, _P99)], figsize=(9, 4))[0].figure
            display(figure)
            plt.close(figure)  # Jupyter shows what is open a second time at the end of a cell
        say("\n".join(lines))

    run_and_show(settings, show)


def run_and_show(
    settings: SessionizeSettings, show: Callable[[pd.DataFrame, list[str]], None], every_s: float = 2.0
) -> list[str]:
    """Run the job, and every `every_s` seconds show how many sessions were live since the start.

    `show` replaces the chart and the lines below it; a row has what micro-batches reported last. The run ends
    after `settings.run_for_ms`, or after `DEFAULT_RUN_MS` if that is not set. The notebook's stop button also ends it
    gracefully.

    Returns and raises what `run` does.
    """
    stop, rows = threading.Event(), deque[tuple[Any, ...]](maxlen=_MOST_POINTS)
    notes, progress = dict[str, None](), deque[str](maxlen=1)  # each note once
    newest: dict[str, int | None] = dict.fromkeys((_LIVE, _P50, _P99))
    if settings.run_for_ms is None:
        notes[f"run-for is not set: this run stops after {DEFAULT_RUN_MS // 60_000} minutes"] = None
        settings = settings.model_copy(update={"run_for_ms": DEFAULT_RUN_MS})

    def listen(batch: BatchProgress) -> None:
        found = {_LIVE: batch.live, _P50: batch.lateness.p50_ms, _P99: batch.lateness.p99_ms}
        newest.update({name: value for name, value in found.items() if value is not None})

    def chart() -> pd.DataFrame:
        return pd.DataFrame(rows, columns=["time (UTC)", *newest]).set_index("time (UTC)").astype(float)

    with ThreadPoolExecutor(1, thread_name_prefix="stream") as threads:
        running = threads.submit(sessionize_job.run, settings, stop, notes.setdefault, (listen,), progress.append)
        try:
            while not running.done():
                try:
                    wait([running], every_s)
                    if newest[_LIVE] is not None:
                        rows.append((utc(wall_clock_ms()), *newest.values()))
                    show(chart(), [*list(notes)[-_MOST_NOTES:], *progress])
                except KeyboardInterrupt:
                    stop.set()
        finally:
            # An error of the chart must not leave a stream running.
            stop.set()
    summary = running.result()
    show(chart(), [*notes, *summary])  # the notes may still matter
    return summary
