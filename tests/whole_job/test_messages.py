"""A job that is started wrongly prints one line: the option, its value, and what to do."""

import contextlib
import io
import json
import os
import runpy
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.checkpoints import last_committed
from tests.support.job import ENTRY, Ended, Job, run_to_end
from tests.support.metrics_endpoint import free_port
from tests.support.stream_job import DEADLINE_S
from tests.support.tables import read_tables

pytestmark = pytest.mark.job

Options = dict[str, str]


@dataclass(frozen=True)
class StoppedJob:
    """A job that ran on an empty input folder and stopped: its options, and how it ended."""

    folder: Path
    options: Options
    ended: Ended


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> StoppedJob:
    """A job in this process that SIGINT stopped after each query had committed a micro-batch."""
    folder = tmp_path_factory.mktemp("rest")
    (folder / "input").mkdir()
    (folder / "other").mkdir()
    options = {"input": "input", "warehouse": "warehouse", "checkpoints": "checkpoints"}
    with interrupted_after(lambda: last_committed(folder / "checkpoints" / "rollup") >= 0):
        ended = start(folder, options | {"metrics-port": str(free_port()), "mlflow": "off"})
    return StoppedJob(folder, options, ended)


@contextlib.contextmanager
def interrupted_after(condition: Callable[[], bool]) -> Iterator[None]:
    """Send SIGINT to this process once the condition holds while the body, a running job, handles that signal.

    Fails if the condition does not hold in time, or before the body ends.
    """
    assert threading.current_thread() is threading.main_thread(), "only the main thread can handle a signal"
    is_over, has_held = threading.Event(), threading.Event()

    def interrupt() -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not is_over.wait(0.2):
            if condition():
                has_held.set()
            if has_held.is_set() or time.monotonic() > deadline_s:
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    assert has_held.is_set(), "the condition did not hold while the job ran"


def start(folder: Path, options: Options) -> Ended:
    """Run the job's script in this process until it ends on its own."""
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(output):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [str(ENTRY), *(f"--{name}={value}" for name, value in options.items())])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ENTRY), run_name="__main__")
    return Ended(ended.value.code, output.getvalue().splitlines())


def refusal(ended: Ended) -> str:
    """The one line of a job that was refused before it started Spark."""
    assert ended.code == 2
    assert len(ended.lines) == 1
    return ended.lines[0].removeprefix("sessionize: ")


def refusal_after_start(ended: Ended) -> str:
    """The second line of a job that was refused after Spark had started; the first line announces that start."""
    assert ended.code == 2
    announced, line = ended.lines
    assert announced.startswith("sessionize: starting; tables in ")
    return line.removeprefix("sessionize: ")


def test_a_job_runs_on_an_empty_input_folder(stopped: StoppedJob) -> None:
    assert stopped.ended.code == 0
    assert "sessionize: archived         0 messages, of which quarantined 0" in stopped.ended.lines
    assert stopped.ended.lines[1].startswith("sessionize: state partitions: 2; ")
    assert not any("rror" in line or "xception" in line for line in stopped.ended.lines)
    tables = read_tables(stopped.folder / "warehouse")
    assert {name for name, rows in tables.items() if rows} == {"stream_progress"}


def test_the_job_says_where_it_serves_its_metrics(stopped: StoppedJob) -> None:
    assert any("metrics for Prometheus on port" in line for line in stopped.ended.lines)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"input": "nowhere"},
            "--input nowhere cannot be read (No such file or directory): create it, or name the folder ",
        ),
        ({"input": "a_file"}, "--input a_file cannot be read (Not a directory): create it, or name the folder that "),
        ({"warehouse": "a_file"}, "--warehouse a_file cannot be written (File exists): give a writable folder"),
        ({"warehouse": "a_file/below"}, "--warehouse a_file/below cannot be written (Not a directory): give a "),
        ({"checkpoints": "a_file"}, "/a_file cannot be used (File exists): give a folder that this user can write"),
        ({"checkpoints": "a_file/below"}, "/a_file/below cannot be used (Not a directory): give a folder "),
        ({"heartbeat": "30"}, "--heartbeat '30' is not a duration: write a number and ms, s, m, h or d, such as 30s"),
        ({"heartbeat": "0s"}, "--heartbeat '0s' is too small: write at least 1ms"),
        ({"hartbeat": "30s"}, "--hartbeat is not an option; did you mean --heartbeat?"),
        ({"device-groups": "many"}, "--device-groups 'many' is not a whole number: write digits, such as 5"),
        ({"source": "pigeons"}, "--source 'pigeons' is not known: write "),
        (
            {"catalog": "main", "schema": "games"},
            "the tables need one location: give --warehouse DIR, or --catalog NAME",
        ),
        ({"input": ""}, "--input '' is empty: give it a value, or leave it out"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_a_wrong_option_is_refused_with_one_line(tmp_path: Path, wrong: Options, message: str) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "a_file").touch()
    right = {"input": "input", "warehouse": "warehouse", "checkpoints": "checkpoints"}
    assert message in refusal(start(tmp_path, right | wrong))
    # Spark's log would be in this folder.
    assert not (tmp_path / "checkpoints").exists()


def test_a_refused_process_prints_one_line(tmp_path: Path) -> None:
    line = refusal(run_to_end("--input=nowhere", "--warehouse=warehouse", "--checkpoints=checkpoints", cwd=tmp_path))
    assert line.startswith("--input nowhere cannot be read (No such file or directory): ")


@pytest.mark.parametrize("name", ["input", "warehouse", "checkpoints"])
def test_a_missing_option_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "input").mkdir()
    options = {"input": "input", "warehouse": "warehouse", "checkpoints": "checkpoints"}
    del options[name]
    assert f"--{name}" in refusal(start(tmp_path, options))
    assert {path.name for path in tmp_path.iterdir()} == {"input"}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("device-groups", "8", "was created with --device-groups not given, not 8: "),
        ("warehouse", "elsewhere", "/warehouse, not "),
        ("input", "other", "/input, not "),
        ("max-clock-skew", "1m", "was created with --max-clock-skew 10m, not 1m: "),
        ("max-event-age", "1d", "was created with --max-event-age 7d, not 1d: "),
    ],
)
def test_options_that_are_fixed_for_a_checkpoint_cannot_change(
    stopped: StoppedJob, option: str, value: str, message: str
) -> None:
    before = (stopped.folder / "checkpoints" / "layout.json").read_bytes()
    line = refusal(start(stopped.folder, stopped.options | {option: value}))
    assert message in line
    assert line.endswith(
        "give the same again, or start with a new --checkpoints folder and an empty location for the tables"
    )
    assert (stopped.folder / "checkpoints" / "layout.json").read_bytes() == before


@pytest.mark.parametrize("damage", ["missing", "cut short"])
def test_a_checkpoint_without_a_readable_layout_is_refused(stopped: StoppedJob, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "checkpoints"
    shutil.copytree(stopped.folder / "checkpoints", copy)
    layout = copy / "layout.json"
    if damage == "missing":
        layout.unlink()
    else:
        layout.write_bytes(layout.read_bytes()[:20])
    line = refusal(start(stopped.folder, stopped.options | {"checkpoints": str(copy)}))
    assert "layout.json" in line
    assert "restore " in line


def test_tables_of_another_checkpoint_are_refused(stopped: StoppedJob) -> None:
    owner = json.loads((stopped.folder / "checkpoints" / "layout.json").read_bytes())["id"]
    line = refusal_after_start(start(stopped.folder, stopped.options | {"checkpoints": "another"}))
    assert f"is written by another checkpoint ({owner}, not " in line
    assert line.endswith("give that checkpoint's folder as --checkpoints, or another location for the tables")


@pytest.mark.long
def test_a_signal_while_the_engine_starts_stops_the_job(tmp_path: Path) -> None:
    job = Job(tmp_path)
    try:
        job.start()
        job.wait_until(
            lambda: any("starting" in line for line in job.output_lines()), "it starts the engine", poll_s=0.05
        )
        assert job.terminate() == 0
    finally:
        job.kill_if_running()
    assert job.output_lines()[-1] == "sessionize: stopped before the queries were started"


def assert_stopped_by_ctrl_c(ended: Ended) -> None:
    """Spark installs its own handler, which would cancel running work and end the job within a micro-batch."""
    assert ended.code == 0
    assert "sessionize: stopping: finishing the micro-batches that have begun, within 25 s" in ended.lines
    assert ended.lines[-1].startswith("sessionize: event-to-table latency")


def test_ctrl_c_stops_as_sigterm_does(stopped: StoppedJob) -> None:
    assert_stopped_by_ctrl_c(stopped.ended)


@pytest.mark.long
def test_ctrl_c_in_a_terminal_stops_the_job_and_all_of_its_processes(tmp_path: Path) -> None:
    """A terminal sends SIGINT to the engine and to its Python workers too."""
    job = Job(tmp_path)
    try:
        job.start()
        job.wait_until(lambda: last_committed(job.checkpoints / "rollup") >= 0, "a micro-batch", poll_s=0.2)
        code = job.interrupt()
    finally:
        job.kill_if_running()
    assert_stopped_by_ctrl_c(Ended(code, job.output_lines()))
