"""The sessionize job as a child process that can be waited for, stopped and killed, and of which nothing survives."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.e2e.checkpoints import committed_files, committed_offsets, last_begun, last_committed, merged_before
from tests.e2e.topics import Topics
from tests.jvm import JVM_OPTIONS

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "jobs" / "sessionize.py"
_POLL_S = 0.005
_LONGEST_S = 300
_STOP_S = 60
_DEATH_S = 20
_STOPS = 5
_LONG_TRIGGER = "--trigger=1m"

# The oracle reads every micro-batch's clock and files, and Spark would drop those of all but the last hundred.
_KEEP_LOGS = {
    "spark.sql.streaming.minBatchesToRetain": "100000",
    "spark.sql.streaming.fileSource.log.deletion": "false",
}


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code, and what it said on stderr, line by line."""

    code: int
    lines: list[str]


def command(*options: str, entry: Sequence[str | Path] = (ENTRY,)) -> list[str]:
    return [sys.executable, *map(str, entry), *options]


def environment(**given: str) -> dict[str, str]:
    """The environment of a job: this process's own, of which nothing about Spark but what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {"JAVA_TOOL_OPTIONS": JVM_OPTIONS, **inherited, "PYTHONPATH": str(ROOT / "lib"), **given}


def run_to_end(
    *options: str, cwd: Path, timeout_s: float = _LONGEST_S, entry: Sequence[str | Path] = (ENTRY,)
) -> Ended:
    """Run the job, or another one, until it ends on its own."""
    words = command(*options, entry=entry)
    done = subprocess.run(
        words, env=environment(), cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.stdout == ""
    return Ended(done.returncode, done.stderr.splitlines())


class Job:
    """A folder with an input, a warehouse and checkpoints, and the job that runs on them again and again.

    Reads from the folder's input, or from Kafka topics. `entry` is the script that is run, with its first arguments;
    `jvm` are options of the engine's Java, `conf` settings of Spark, and `more` options of the job, in place of those of
    the same name, that the next start takes; `library` is the folder that it has the library from.
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
        self.more: tuple[str, ...] = ()
        self.library = ROOT / "lib"
        self._folder = folder
        self._entry, self._options = entry, options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the job as the leader of a session of its own, by which all of its processes are known."""
        assert self._process is None
        folders = ("--warehouse", self.warehouse, "--checkpoints", self.checkpoints)
        source = ("--input", self.input) if self.topics is None else self.topics.options
        replaced = {word.partition("=")[0] for word in self.more}
        options = (*(word for word in self._options if word.partition("=")[0] not in replaced), *self.more)
        kept = [f"--conf {name}={value}" for name, value in (_KEEP_LOGS | self.conf).items()]
        spark = {"PYSPARK_SUBMIT_ARGS": " ".join((*kept, "pyspark-shell")), "SPARK_SUBMIT_OPTS": " ".join(self.jvm)}
        with self.stderr.open("ab") as said:
            self._process = subprocess.Popen(
                command(*map(str, (*source, *folders)), "--mlflow=off", *options, entry=self._entry),
                env=environment(PYTHONPATH=str(self.library), **spark),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process of the job, which leads a session of its own."""
        return self._running().pid

    def wait_until(
        self, reached: Callable[[], bool], what: str, *, poll_s: float = _POLL_S, within_s: float = _LONGEST_S
    ) -> None:
        """Poll until something has come true; a job that ends before that fails the test."""
        deadline_s = time.monotonic() + within_s
        while not reached():
            code = self._running().poll()
            assert code is None, f"the job ended with code {code} before {what}: {self.said()[-3:]}"
            assert time.monotonic() < deadline_s, f"not within {within_s} s: {what}; it said {self.said()[-3:]}"
            time.sleep(poll_s)

    def wait_until_done(self, within_s: float = _LONGEST_S) -> None:
        """Wait until the tables hold all that follows from the input, `sessions` too; needs a session that beats."""
        self.wait_until(self._has_read_everything, "all input is read", poll_s=0.2, within_s=within_s)
        log = self.warehouse / "session_changes" / "_delta_log"
        newest = max(int(path.stem) for path in log.glob("*.json"))
        self.wait_until(
            lambda: merged_before(self.checkpoints / "rollup") > newest,
            "all changes are merged",
            poll_s=0.2,
            within_s=within_s,
        )

    def run_until_done(self) -> None:
        """From a start to a graceful stop, once the tables hold all that follows from the input."""
        try:
            self.start()
            self.wait_until_done()
            assert self.terminate() == 0
        finally:
            self.kill_if_running()

    def come_to_rest(self, *names: str) -> None:
        """Stop gracefully, again until no micro-batch of these queries is left half done: mostly at once.

        Where micro-batches take longer than the trigger there is no pause to stop in. The next start has a trigger of a
        minute: its first micro-batches run at once, and the pause after them is long on a slow machine too.
        """
        queries = [self.checkpoints / name for name in names]
        more = self.more
        for _ in range(_STOPS):
            self._running().terminate()
            assert self.wait_for_end(within_s=_LONGEST_S) == 0, self.said()[-3:]
            self.more = more
            if _are_at_rest(queries):
                return
            self.more = (*more, _LONG_TRIGGER)
            self.start()
            self.wait_until(partial(_are_at_rest, queries), "what was begun is done")
        msg = f"each of {_STOPS} stops has left a micro-batch half done"
        raise AssertionError(msg)

    def _has_read_everything(self) -> bool:
        """Both queries that read the input are done with all that is there."""
        queries = [self.checkpoints / query for query in ("sessionize", "archive")]
        if self.topics is not None:
            ends = self.topics.ends()
            return all(committed_offsets(query) == ends for query in queries)
        files = set(self.input.glob("*/*.json"))
        return all(files == committed_files(query) for query in queries)

    def kill(self) -> None:
        """SIGKILL the process group (the driver and its JVM) at once, then what has a group of its own."""
        process = self._running()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        deadline_s = time.monotonic() + _DEATH_S
        while left := processes_of_session(process.pid):
            assert time.monotonic() < deadline_s, f"processes {left} survive SIGKILL"
            for pid in left:
                if _session_of(pid) == process.pid:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)
        self._process = None

    def terminate(self, death_s: float = _DEATH_S) -> int:
        """SIGTERM the job's own process, as a service manager does; its exit code, within the promised minute."""
        self._running().terminate()
        return self.wait_for_end(death_s)

    def interrupt(self) -> int:
        """SIGINT to the whole process group, as Ctrl-C in a terminal; its exit code, within the promised minute."""
        os.killpg(self._running().pid, signal.SIGINT)
        return self.wait_for_end()

    def kill_engine(self) -> None:
        """SIGKILL the JVM alone, as the kernel does when memory runs out."""
        [engine] = [pid for pid in processes_of_session(self._running().pid) if _is_engine(pid)]
        os.kill(engine, signal.SIGKILL)

    def wait_for_end(self, death_s: float = _DEATH_S, *, within_s: float = _STOP_S) -> int:
        """The exit code of a job that ends in time, by default within a minute, and leaves no process behind."""
        process = self._running()
        code = process.wait(within_s)
        # The JVM and the Python workers go by themselves once the driver has: give them a moment, and no help.
        deadline_s = time.monotonic() + death_s
        while left := processes_of_session(process.pid):
            assert time.monotonic() < deadline_s, f"processes {left} are left behind"
            time.sleep(_POLL_S)
        self._process = None
        return code

    def kill_if_running(self) -> None:
        if self._process is not None:
            self.kill()

    def said(self) -> list[str]:
        return self.stderr.read_text(encoding="utf-8").splitlines() if self.stderr.exists() else []

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process


def _are_at_rest(queries: Sequence[Path]) -> bool:
    """Whether each query is done with all micro-batches that it has begun."""
    return all(last_committed(query) == last_begun(query) for query in queries)


def processes_of_session(session: int) -> list[int]:
    """The processes of a session that are alive; one that is dead and not yet collected by its parent is not."""
    pids = subprocess.run(["ps", "-A", "-o", "pid=,stat="], capture_output=True, text=True, check=True).stdout
    alive = [line.split() for line in pids.splitlines()]
    return [int(pid) for pid, state in alive if not state.startswith("Z") and _session_of(int(pid)) == session]


def _is_engine(pid: int) -> bool:
    return b"org.apache.spark.deploy.SparkSubmit" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
