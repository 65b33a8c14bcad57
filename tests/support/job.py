"""The sessionize job as a child process that a test can wait for, stop and kill, with all of its processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pyspark

from sessionization_laptop.engine.java import java_home
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from tests.support.checkpoints import committed_files, committed_offsets, last_committed, last_started, merged_before
from tests.support.evening import Evening
from tests.support.messages import Files, Source
from tests.support.processes import is_engine, processes_of_session, runs_script, session_of
from tests.support.topics import Topics
from tests.support.waiting import rest_after_look

ROOT = Path(__file__).parents[2]
QUERIES = ("sessionize", "archive", "rollup")
ENTRY = ROOT / "jobs" / "sessionize.py"
SIMULATE = ROOT / "jobs" / "simulate.py"
SPARK = Path(pyspark.__file__).parent
_POLL_S = 0.005
_LONGEST_S = 300
_STOP_S = 60
_DEATH_S = 20
_STOPS = 5
_LONG_TRIGGER = "--trigger=1m"

# The oracle reads the clock and files of every micro-batch; Spark would delete all but the last hundred.
_RETAIN_LOGS = {
    "spark.sql.streaming.minBatchesToRetain": "100000",
    "spark.sql.streaming.fileSource.log.deletion": "false",
}


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code, and the lines of its stderr."""

    code: int
    lines: list[str]


def command(*options: str, entry: Sequence[str | Path] = (ENTRY,)) -> list[str]:
    return [sys.executable, *map(str, entry), *options]


def environment(**given: str) -> dict[str, str]:
    """The environment of a job: this process's, without its Spark variables, and with the given ones."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {"JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM_OPTIONS, **inherited, "PYTHONPATH": str(ROOT / "lib"), **given}


def run_to_end(
    *options: str,
    cwd: Path,
    timeout_s: float = _LONGEST_S,
    entry: Sequence[str | Path] = (ENTRY,),
    has_output: bool = False,
    **variables: str,
) -> Ended:
    """Run the job, or another one, until it ends on its own; `has_output` of one that prints to stdout."""
    words = command(*options, entry=entry)
    process = subprocess.run(
        words, env=environment(**variables), cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert has_output or process.stdout == ""
    return Ended(process.returncode, process.stderr.splitlines())


class Job:
    """A folder with an input, a warehouse and checkpoints, and the job that runs on them again and again.

    It reads from the folder's input, or from Kafka topics. `entry` is the script that is run, with its first arguments.
    The next start takes `jvm`, options of the engine's Java; `conf`, settings of Spark; `submit_options`, options of
    spark-submit, which then starts the job; `variables`, more of its environment; and `more`, options of the job that
    replace those of the same name. `library` is the folder from which it imports the library. `watched` are the queries
    that a test looks at. In a `with` it is killed at the end, if it still runs.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        topics: Topics | None = None,
        entry: Sequence[str | Path] = (ENTRY,),
    ) -> None:
        self.topics = topics
        self.input, self.warehouse, self.checkpoints = folder / "input", folder / "warehouse", folder / "checkpoints"
        self.input.mkdir(parents=True, exist_ok=True)
        self.stderr = folder / "stderr.txt"
        self.jvm: tuple[str, ...] = ()
        self.conf: dict[str, str] = {}
        self.submit_options: tuple[str, ...] = ()
        self.more: tuple[str, ...] = ()
        self.library = ROOT / "lib"
        self.variables: dict[str, str] = {}
        self.watched: tuple[str, ...] = QUERIES
        self._folder = folder
        self.entry, self._options = entry, options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the job as the leader of its own session, which identifies all of its processes."""
        assert self._process is None
        replaced = {word.partition("=")[0] for word in self.more}
        options = (*(word for word in self._options if word.partition("=")[0] not in replaced), *self.more)
        settings = [f"--conf={name}={value}" for name, value in (_RETAIN_LOGS | self.conf).items()]
        words = command(*self.place_options(), *options, entry=self.entry)
        if self.submit_options:
            spark = {"PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home())}
            words = [str(SPARK / "bin" / "spark-submit"), *self.submit_options, *settings, *words[1:]]
        else:
            spark = {"PYSPARK_SUBMIT_ARGS": " ".join((*settings, "pyspark-shell"))}
        with self.stderr.open("ab") as output:
            self._process = subprocess.Popen(
                words,
                env=environment(
                    PYTHONPATH=str(self.library), SPARK_SUBMIT_OPTS=" ".join(self.jvm), **spark, **self.variables
                ),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output if self.submit_options else None,  # where spark-submit puts both outputs of the job
                stderr=output,
                start_new_session=True,
            )

    def location_of(self, folder: Path) -> str:
        """How the job names one of its folders."""
        return str(folder)

    def place_options(self) -> tuple[str, ...]:
        """The options that say where the job reads and writes."""
        folders = (*self.table_options(), "--checkpoints", self.location_of(self.checkpoints))
        source = ("--input", self.location_of(self.input)) if self.topics is None else self.topics.options
        return (*source, *folders, "--mlflow=off")

    def table_options(self) -> tuple[str, ...]:
        """The options that say where the tables are."""
        return ("--warehouse", self.location_of(self.warehouse))

    def release(self, evening: Evening, files: int | None = None) -> None:
        """Move files of an evening into the input folder: each appears there at once."""
        evening.release(self.input, files)

    def messages(self) -> Source:
        """What the job reads, for the oracle."""
        return Files()

    def look(self) -> None:
        """Prepare a look at how far the job is; where its folders are elsewhere, copy what tells it."""

    def pull(self) -> None:
        """Prepare a look at all that a stopped job has left."""

    @property
    def pid(self) -> int:
        """The process id of the job, which leads its own session."""
        return self._running().pid

    def wait_until(
        self, reached: Callable[[], bool], awaited: str, *, poll_s: float = _POLL_S, within_s: float = _LONGEST_S
    ) -> None:
        """Poll until the condition holds; a job that ends first fails the test."""
        deadline_s = time.monotonic() + within_s
        while True:
            looked_s = time.monotonic()
            if reached():
                return
            code = self._running().poll()
            assert code is None, f"the job ended with code {code} before {awaited}: {self.output_lines()[-3:]}"
            assert time.monotonic() < deadline_s, (
                f"not within {within_s} s: {awaited}; it said {self.output_lines()[-3:]}"
            )
            rest_after_look(looked_s, poll_s)

    def wait_for_running_micro_batch(self) -> None:
        """Wait until another micro-batch of `sessionize` is committed, and a later one is started."""
        query = self.checkpoints / "sessionize"
        committed = last_committed(query)
        self.wait_until(lambda: last_committed(query) > committed, "a micro-batch is committed")
        newest = last_committed(query)
        self.wait_until(lambda: last_started(query) > newest, "a micro-batch is started")

    def wait_until_done(self, within_s: float = _LONGEST_S) -> None:
        """Wait until the tables, also `sessions`, hold everything that follows from the input; needs a live session."""
        self.wait_until(self._has_read_everything, "all input is read", poll_s=0.2, within_s=within_s)
        newest = self._newest_change()
        self.wait_until(
            lambda: merged_before(self.checkpoints / "rollup") > newest,
            "all changes are merged",
            poll_s=0.2,
            within_s=within_s,
        )

    def run_until_done(self) -> None:
        """Start the job, and stop it gracefully once the tables hold everything that follows from the input."""
        with self:
            self.start()
            self.wait_until_done()
            assert self.terminate() == 0

    def come_to_rest(self) -> None:
        """Stop gracefully with everything committed and merged, as an erasure requires; one stop mostly suffices.

        If micro-batches take longer than the trigger, there is no pause to stop in. The next start then has a trigger
        of a minute: its first micro-batches run at once, and the pause after them is long even on a slow machine.
        """
        more = self.more
        for _ in range(_STOPS):
            self._send_sigterm()
            assert self.wait_for_end(within_s=_LONGEST_S) == 0, self.output_lines()[-3:]
            self.more = more
            if self._is_at_rest():
                return
            self.more = (*more, _LONG_TRIGGER)
            self.start()
            self.wait_until(self._is_at_rest, "all that has started is committed and merged")
        msg = f"something is half done or not merged after each of {_STOPS} stops"
        raise AssertionError(msg)

    def _is_at_rest(self) -> bool:
        """Whether each query has committed every micro-batch that it has started, and `sessions` has all changes."""
        queries = [self.checkpoints / name for name in QUERIES]
        is_done = all(last_committed(query) == last_started(query) for query in queries)
        return is_done and merged_before(self.checkpoints / "rollup") > self._newest_change()

    def _newest_change(self) -> int:
        """The newest version of `session_changes`."""
        return max(int(path.stem) for path in (self.warehouse / "session_changes" / "_delta_log").glob("*.json"))

    def _has_read_everything(self) -> bool:
        """Whether both queries that read the input have committed all of it."""
        queries = [self.checkpoints / query for query in ("sessionize", "archive")]
        if self.topics is not None:
            ends = self.topics.ends()
            return all(committed_offsets(query) == ends for query in queries)
        files = set(self.input.glob("*/*.json"))
        return all(files == committed_files(query) for query in queries)

    def kill(self) -> None:
        """SIGKILL the process group (the driver and its JVM) at once, then processes with their own group."""
        process = self._running()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deadline_s = time.monotonic() + _DEATH_S
        while alive := processes_of_session(process.pid):
            assert time.monotonic() < deadline_s, f"processes {alive} survive SIGKILL"
            for pid in alive:
                if session_of(pid) == process.pid:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        self._process = None

    def terminate(self, death_s: float = _DEATH_S) -> int:
        """SIGTERM the job's own process, as a service manager does, and return its exit code within a minute."""
        self._send_sigterm()
        return self.wait_for_end(death_s)

    def _send_sigterm(self) -> None:
        if self.submit_options:  # the process that was started is the engine
            processes = processes_of_session(self.pid)
            [driver] = [pid for pid in processes if not is_engine(pid) and runs_script(pid, self.entry[0])]
            os.kill(driver, signal.SIGTERM)
        else:
            self._running().terminate()

    def wait_for_end(self, death_s: float = _DEATH_S, *, within_s: float = _STOP_S) -> int:
        """Return the exit code of a job that ends in time, by default within a minute, and leaves no process behind."""
        process = self._running()
        code = process.wait(within_s)
        # The JVM and the Python workers must end by themselves shortly after the driver.
        deadline_s = time.monotonic() + death_s
        while alive := processes_of_session(process.pid):
            assert time.monotonic() < deadline_s, f"processes {alive} are left behind"
            time.sleep(_POLL_S)
        self._process = None
        return code

    def kill_if_running(self) -> None:
        if self._process is not None:
            self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_if_running()

    def output_lines(self) -> list[str]:
        return self.stderr.read_text(encoding="utf-8").splitlines() if self.stderr.exists() else []

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process
