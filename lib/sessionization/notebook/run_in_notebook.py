"""The job in a notebook: a task just runs it; a person also sees a live picture, and the run is limited in time."""

import contextlib
from collections.abc import Callable
from typing import Any

from sessionization.command_line.widgets import WidgetBar, is_run_by_a_job
from sessionization.databricks import driver_log_folder
from sessionization.job import sessionize_job
from sessionization.monitor.batch_log import LineLog
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings

PROGRESS_LOG = "sessionize.log"


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
        from sessionization.notebook.live_view import CellOutput, run_and_show  # a task needs no plotting

        run_and_show(settings, CellOutput(display))
        return
    file = driver_log_folder() / PROGRESS_LOG
    say(f"progress is in {file} on the driver")
    log = LineLog(file)

    def say_progress(line: str) -> None:
        with contextlib.suppress(OSError):  # the line is lost, and the stream goes on
            log(line)

    sessionize_job.run_and_print_summary(settings, say, say_progress)
