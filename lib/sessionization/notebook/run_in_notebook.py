"""The job in a notebook: a task just runs it; a person also sees a live picture, and the run is limited in time."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from sessionization.command_line.widgets import WidgetBar, is_run_by_a_job
from sessionization.job import sessionize_job
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings


def run_in_notebook(
    settings: SessionizeSettings,
    widgets: WidgetBar,
    display: Callable[[Any], None],
    say: Say = print,
) -> None:
    """Run the job: as a task until it is stopped, without a chart; for a person with a chart and a time limit.

    A task's progress goes to the process's stderr, which the cluster logs. A cell's output is limited, and a progress
    line every few seconds would reach the limit within days.
    """
    if is_run_by_a_job(widgets):
        sessionize_job.run_and_print_summary(settings, say, _log_line)
        return
    from sessionization.notebook.live_view import CellOutput, run_and_show  # a task needs no plotting

    run_and_show(settings, CellOutput(display))


def _log_line(line: str) -> None:
    """Write a line to the process's own stderr; without one, or where it cannot be written, the line is lost."""
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError):
            sys.__stderr__.write(f"{line}\n")
            sys.__stderr__.flush()
