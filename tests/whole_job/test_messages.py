"""A job that is started wrongly prints one line: the option, its value, and what to do."""

import contextlib
import io
import os
import runpy
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
from tests.support.tables import read_tables
from tests.support.waiting import DEADLINE_S

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
    """The last line of a job that was refused; one that had begun has announced that."""
    assert ended.code == 2
    *announced, line = ended.lines
    assert all(line.startswith("sessionize: starting; tables in ") for line in announced)
    return line.removeprefix("sessionize: ")


def test_a_job_runs_on_an_empty_input_folder(stopped: StoppedJob) -> None:
    assert stopped.ended.code == 0
    assert "sessionize: archived         0 messages, of which quarantined 0" in stopped.ended.lines
    assert stopped.ended.lines[1].startswith("sessionize: state partitions: 2; ")
    assert not any("rror" in line or "xception" in line for line in stopped.ended.lines)
    tables = read_tables(stopped.folder / "warehouse")
    assert {name for name, rows in tables.items() if rows} == {"stream_progress"}
    assert any("metrics for Prometheus on port" in line for line in stopped.ended.lines)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"input": "nowhere"}, "--input nowhere cannot be read (No such file or directory): create it, or "),
        ({"warehouse": "a_file/below"}, "--warehouse a_file/below cannot be written (Not a directory): give a "),
        ({"checkpoints": "a_file"}, "/a_file cannot be used (File exists): give a folder that this user can write"),
        ({"hartbeat": "30s"}, "No such option"),
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


@pytest.mark.long
def test_a_signal_while_the_engine_starts_stops_the_job(tmp_path: Path) -> None:
    job = Job(tmp_path)
    with job:
        job.start()
        job.wait_until(
            lambda: any("starting" in line for line in job.output_lines()), "it starts the engine", poll_s=0.05
        )
        assert job.terminate() == 0
    assert job.output_lines()[-1] == "sessionize: stopped before the queries were started"


def assert_stopped_by_ctrl_c(ended: Ended) -> None:
    """Spark installs its own handler, which would cancel running work and end the job within a micro-batch."""
    assert ended.code == 0
    assert "sessionize: stopping: finishing the micro-batches that have begun, within 25 s" in ended.lines
    assert ended.lines[-1].startswith("sessionize: live now")


def test_ctrl_c_stops_as_sigterm_does(stopped: StoppedJob) -> None:
    assert_stopped_by_ctrl_c(stopped.ended)


@pytest.mark.long
def test_ctrl_c_in_a_terminal_stops_the_job_and_all_of_its_processes(tmp_path: Path) -> None:
    """A terminal sends SIGINT to the engine and to its Python workers too."""
    job = Job(tmp_path)
    with job:
        job.start()
        job.wait_until(lambda: last_committed(job.checkpoints / "rollup") >= 0, "a micro-batch", poll_s=0.2)
        os.killpg(job.pid, signal.SIGINT)
        code = job.wait_for_end()
    assert_stopped_by_ctrl_c(Ended(code, job.output_lines()))
