"""The job in a notebook: a task just runs it; a person also sees a live picture, and the run is limited in time."""

import logging
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from typing import Any

from sessionization.command_line.widgets import WidgetBar, is_run_by_a_job
from sessionization.databricks import driver_log_folder
from sessionization.job import sessionize_job
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings

PROGRESS_LOG = "sessionize.log"
MOST_BYTES, OLDER_FILES = 10_000_000, 3


class _ProgressLog(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name that logging gives
        """Lose the line: the stream goes on."""


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
    if not is_run_by_a_job(widgets):
        from IPython.display import clear_output

        from sessionization.notebook.live_view import run_and_show  # a task needs no plotting

        def show(figure: Any, lines: list[str]) -> None:
            clear_output(wait=True)
            display(figure)
            say("\n".join(lines))

        run_and_show(settings, show)
        return
    file = driver_log_folder() / PROGRESS_LOG
    say(f"progress is in {file} on the driver")
    log = _ProgressLog(file, maxBytes=MOST_BYTES, backupCount=OLDER_FILES, encoding="utf-8", delay=True)

    def say_progress(line: str) -> None:
        log.handle(logging.makeLogRecord({"msg": line}))

    sessionize_job.run_and_print_summary(settings, say, say_progress)
