"""A job that is started wrongly prints one line: the option, its value, and what to do."""

import contextlib
import io
import os
import runpy
import signal
import sys
from pathlib import Path

import pytest

from tests.support.checkpoints import last_committed
from tests.support.job import ENTRY, Ended, Job
from tests.support.metrics_endpoint import free_port
from tests.support.tables import read_tables

pytestmark = pytest.mark.job

Options = dict[str, str]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job on an empty input folder that Ctrl-C in a terminal has stopped, after a micro-batch of each query.

    A terminal sends SIGINT to the engine and to its Python workers too.
    """
    job = Job(tmp_path_factory.mktemp("rest"), f"--metrics-port={free_port()}")
    with job:
        job.start()
        job.wait_until(lambda: last_committed(job.checkpoints / "rollup") >= 0, "a micro-batch", poll_s=0.2)
        os.killpg(job.pid, signal.SIGINT)
        assert job.wait_for_end() == 0
    return job


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


def test_a_job_runs_on_an_empty_input_folder(stopped: Job) -> None:
    lines = stopped.output_lines()
    assert "sessionize: archived         0 messages, of which quarantined 0" in lines
    assert lines[1].startswith("sessionize: state partitions: ")
    assert not any("rror" in line or "xception" in line for line in lines)
    tables = read_tables(stopped.warehouse)
    assert {name for name, rows in tables.items() if rows} == {"stream_progress"}
    assert any("metrics for Prometheus on port" in line for line in lines)


def test_ctrl_c_stops_as_sigterm_does(stopped: Job) -> None:
    """Spark installs its own handler, which would cancel running work and end the job within a micro-batch."""
    lines = stopped.output_lines()
    assert "sessionize: stopping: finishing the micro-batches that have begun, within 25 s" in lines
    assert lines[-1].startswith("sessionize: live now")


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
