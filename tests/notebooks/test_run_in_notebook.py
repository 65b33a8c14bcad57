"""The job in a notebook: charts and a time limit for a person, a log file for a task; a stand-in is the stream."""

import threading
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sessionization import databricks
from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.job import sessionize_job as runs
from sessionization.notebook import run_in_notebook
from sessionization.say import Say
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchListener, BatchProgress, Percentiles
from sessionization_laptop.laptop_notebook import LaptopWidgets
from tests.support.settings import settings_of

pytestmark = pytest.mark.job

NONE = Percentiles(None, None, None)
SUMMARY = ["ran 1 s"]


class Charts:
    """Collects what a run shows; raises `error` at the second chart."""

    def __init__(self, error: type[BaseException] | None = None) -> None:
        self.error, self.lines, self.rows = error, list[list[str]](), pd.DataFrame()

    def show(self, rows: pd.DataFrame, lines: list[str]) -> None:
        self.rows = rows
        self.lines.append(lines)
        if self.error is not None and len(self.lines) == 2:
            raise self.error


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the stream by one that waits for a stop or for the end of `run_for`; records `run_for` and the stop."""
    seen: dict[str, Any] = {}

    def run(
        settings: SessionizeSettings, stop: threading.Event, say: Say, listeners: list[BatchListener], say_progress: Say
    ) -> list[str]:
        seen["run_for"] = settings.run_for_ms
        for line in ("MLflow does not take this run", "3 events in", "MLflow does not take this run"):
            (say_progress if "events" in line else say)(line)
        listeners[0](BatchProgress("sessionize", 1, 1_000, 5, 100, NONE, Percentiles(10, 30, 31)))
        listeners[0](BatchProgress("sessionize", 2, 2_000, 5, 100, NONE))
        listeners[0](BatchProgress("rollup", 2, 2_000, 5, 100, NONE, live=40))
        seen["stopped"] = stop.wait((settings.run_for_ms or 0) / 1_000)
        return SUMMARY

    monkeypatch.setattr(runs, "run", run)
    return seen


def settings(run_for: str | None) -> SessionizeSettings:
    where: dict[str, Any] = {"input": Path("in"), "warehouse": Path("tables"), "checkpoints": Path("checkpoints")}
    return settings_of(SessionizeSettings, where | ({"run_for": run_for} if run_for else {}))


def test_an_interactive_run_ends_after_run_for_with_a_summary(stream: dict[str, Any]) -> None:
    charts = Charts()
    run_in_notebook.run_and_show(settings("200ms"), charts.show, 0.01)
    assert stream == {"run_for": 200, "stopped": False}
    assert charts.lines[0] == ["MLflow does not take this run", "3 events in"]
    assert charts.lines[-1][:2] == ["MLflow does not take this run", "ran 1 s"], "what matters at the end too, once"
    assert charts.rows.iloc[-1].tolist() == [40, 10, 30], "of the newest micro-batch with heartbeats"


def test_an_interactive_run_without_run_for_gets_a_time_limit(stream: dict[str, Any]) -> None:
    charts = Charts(KeyboardInterrupt)
    run_in_notebook.run_and_show(settings(None), charts.show, 0.01)
    assert stream == {"run_for": run_in_notebook.DEFAULT_RUN_MS, "stopped": True}
    assert all("run-for is not set: this run stops after 2 minutes" in lines for lines in charts.lines)


def test_an_error_in_a_chart_stops_the_stream(stream: dict[str, Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        run_in_notebook.run_and_show(settings("1m"), Charts(ZeroDivisionError).show, 0.01)
    assert stream["stopped"]


def test_a_tasks_progress_lines_go_to_a_file_of_the_driver_and_not_into_the_cell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(databricks, "_DRIVER_LOGS", tmp_path)
    widgets = LaptopWidgets({JOB_RUN_ID: "8712"})
    widgets.text(JOB_RUN_ID, "")
    monkeypatch.setattr(runs, "run_and_print_summary", lambda _settings, _say, say_progress: say_progress("12 events"))
    lines: list[str] = []
    run_in_notebook.run_in_notebook(settings("1m"), widgets, pytest.fail, lines.append)
    assert lines == [f"progress is in {tmp_path / 'sessionize.log'} on the driver"]
    assert (tmp_path / "sessionize.log").read_text() == "12 events\n"
    assert capfd.readouterr().err == ""
