"""Pictures of handmade rows: the drawn elements, and a label on every axis."""

import pytest

pytest.importorskip("matplotlib", reason="Matplotlib is not installed: make notebooks installs it")

import threading
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sessionization import databricks
from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.job import sessionize_job as runs
from sessionization.notebook import live_view, run_in_notebook, timeline, tour
from sessionization.notebook.live_view import LiveView
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress, Percentiles
from sessionization_laptop.laptop_notebook import LaptopWidgets
from tests.support.settings import settings_of

pytestmark = pytest.mark.job

ZERO_MS = 1_800_000_000_000


def change(kind: str, session_id: int = 1, **fields: object) -> dict[str, object]:
    empty = dict.fromkeys(("end_reason", "started_ms", "ended_ms", "due_ms"))
    return {"session_id": session_id, "change": kind, "revision": 0, **empty, **fields}


def labels(figure: Figure) -> list[tuple[str, str]]:
    return [(axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes]


def test_a_session_without_an_end_is_live_and_an_orphaned_end_has_no_start() -> None:
    changes = [
        change("started", 7, started_ms=2_000),
        change("ended", 8, end_reason="orphaned", ended_ms=1_000),
    ]
    assert [(bar.session_id, bar.reason, bar.started_ms, bar.ended_ms) for bar in timeline.bars_of(changes)] == [
        (8, "orphaned", None, 1_000),
        (7, "live", 2_000, None),
    ]


def test_the_timeline_has_a_strip_for_each_device_and_names_its_unit() -> None:
    rows = tour.through_core()
    figure = tour.picture(rows, "Ten events")
    assert [axes.get_title(loc="left").partition(":")[0] for axes in figure.axes] == list(tour.CAPTION_BY_DEVICE)
    assert figure.axes[-1].get_xlabel() == "seconds after 08:00:00 UTC (event time)"
    drawn = {axes.get_title(loc="left").partition(":")[0]: len(axes.patches) for axes in figure.axes}
    assert drawn == {"console-1": 1, "pc-2": 2, "console-3": 1, "pc-4": 1, "pc-5": 0}


def test_a_live_session_that_started_last_has_a_visible_bar() -> None:
    changes = [
        change("started", 1, started_ms=ZERO_MS),
        change("ended", 1, end_reason="reported", started_ms=ZERO_MS, ended_ms=ZERO_MS + 60_000),
        change("started", 2, started_ms=ZERO_MS + 60_000),
    ]
    figure = timeline.draw([timeline.DeviceTimeline("pc-1", "", timeline.bars_of(changes))], "One device")
    assert [round(bar.get_width(), 1) for bar in figure.axes[0].patches] == [60, 1.8]


def test_the_sessions_of_the_tour_end_as_its_captions_say() -> None:
    rows = tour.through_core()
    assert tour.last_ends(rows) == [
        ("console-1", 1, "reported"),
        ("console-3", 5, "timed_out"),
        ("pc-2", 2, "reported"),
        ("pc-2", 3, "timed_out"),
        ("pc-4", 4, "reported"),
        ("pc-5", 6, "orphaned"),
    ]
    assert [row["revision"] for row in rows if row["session_id"] == 2 and row["change"] == "ended"] == [0, 1]
    assert len(tour.TEN_EVENTS) == 10
    assert {row["device_id"] for row in rows if row["change"] == "heartbeat"} == {"console-1", "pc-2", "console-3"}


def test_the_live_view_draws_the_points_that_were_added() -> None:
    view = LiveView()
    empty = view.picture()
    assert [len(axes.lines) for axes in empty.axes] == [0, 0]
    no_delays = Percentiles(None, None, None)
    for second in range(3):
        at_ms = ZERO_MS + 1_000 * second
        view.live.append((at_ms, 40 + second))
        view.add(BatchProgress("sessionize", second, at_ms, 5, 100, no_delays, Percentiles(10, 30, 31)))
        view.add(BatchProgress("archive", second, at_ms, 5, 100, no_delays))
    figure = view.picture()
    assert [len(axes.lines) for axes in figure.axes] == [1, 2]
    assert labels(figure) == [("", "sessions"), ("time (UTC)", "late by (ms)")]
    assert [len(line.get_xdata()) for axes in figure.axes for line in axes.lines] == [3, 3, 3]


class Pictures:
    """Collects the pictures of a run; raises `error` at the second picture."""

    def __init__(self, error: type[BaseException] | None = None) -> None:
        self.error, self.lines = error, list[list[str]]()

    def show(self, _figure: Figure, lines: list[str]) -> None:
        self.lines.append(lines)
        if self.error is not None and len(self.lines) == 2:
            raise self.error


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Replace the stream by one that waits for a stop or for the end of `run_for`; records `run_for` and the stop."""
    seen: dict[str, Any] = {}

    def run(settings: SessionizeSettings, stop: threading.Event, callbacks: runs.JobCallbacks) -> list[str]:
        seen["run_for"] = settings.run_for_ms
        for line in ("MLflow does not take this run", "3 events in", "MLflow does not take this run"):
            assert callbacks.say_progress is not None
            (callbacks.say_progress if "events" in line else callbacks.say)(line)
        seen["stopped"] = stop.wait((settings.run_for_ms or 0) / 1_000)
        return ["ran 1 s", "live now 3"]

    monkeypatch.setattr(live_view, "run", run)
    return seen


def settings(run_for: str | None) -> SessionizeSettings:
    where: dict[str, Any] = {"input": Path("in"), "warehouse": Path("tables"), "checkpoints": Path("checkpoints")}
    return settings_of(SessionizeSettings, where | ({"run_for": run_for} if run_for else {}))


def test_an_interactive_run_ends_after_run_for_with_a_summary(stream: dict[str, Any]) -> None:
    pictures = Pictures()
    live_view.run_and_show(settings("200ms"), pictures.show, 0.01)
    assert stream == {"run_for": 200, "stopped": False}
    assert pictures.lines[0] == ["MLflow does not take this run", "3 events in"]
    assert pictures.lines[-1][:2] == ["MLflow does not take this run", "ran 1 s"], "what matters at the end too, once"


def test_an_interactive_run_without_run_for_gets_a_time_limit(stream: dict[str, Any]) -> None:
    pictures = Pictures(KeyboardInterrupt)
    live_view.run_and_show(settings(None), pictures.show, 0.01)
    assert stream == {"run_for": live_view.DEFAULT_RUN_MS, "stopped": True}
    assert all("run-for is not set: this run stops after 2 minutes" in lines for lines in pictures.lines)


def test_an_error_in_a_picture_stops_the_stream(stream: dict[str, Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        live_view.run_and_show(settings("1m"), Pictures(ZeroDivisionError).show, 0.01)
    assert stream["stopped"]
    assert not any(thread.name.startswith("stream") for thread in threading.enumerate())


@pytest.mark.parametrize(("run_id", "called"), [("8712", "run_and_print_summary"), ("", "run_and_show")])
def test_a_run_with_a_job_run_id_prints_a_summary_and_any_other_run_shows_pictures(
    monkeypatch: pytest.MonkeyPatch, run_id: str, called: str
) -> None:
    widgets = LaptopWidgets({JOB_RUN_ID: run_id})
    widgets.text(JOB_RUN_ID, "")
    calls: list[str] = []
    monkeypatch.setattr(runs, "run_and_print_summary", lambda *_: calls.append("run_and_print_summary"))
    monkeypatch.setattr(live_view, "run_and_show", lambda *_: calls.append("run_and_show"))
    run_in_notebook.run_in_notebook(settings("1m"), widgets, pytest.fail, lambda _line: None)
    assert calls == [called]


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
