"""An evening during which the job is killed repeatedly, and the tables and the state that it must have then."""

import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.support.accounts import unaccounted
from tests.support.boundaries import Boundary, moment
from tests.support.evening import Evening
from tests.support.job import ENTRY, Ended, Job
from tests.support.oracle import Oracle, build_oracle
from tests.support.processes import engine_of
from tests.support.state import entries_and_timers, late_timers
from tests.support.tables import Tables, differences, read_tables
from tests.support.traces import Stage, Traces
from tests.support.wire import DEFAULT

RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=40_000, late_retention_ms=4_000, max_sessions_per_device=3)
RULES_WITH_ACTIVITY = replace(RULES, inactivity_timeout_ms=6_000, late_retention_ms=8_000)
# Often, so that a kill soon finds each query at work, and the end of the evening is soon archived and merged.
PACE = ("--trigger=1s", "--archive-every=2s", "--rollup-every=2s")
# Many sessions per device, so that they overlap. A kill every 40 seconds of the evening.
EVENING = {"rate": 8, "session_length": "40s", "devices": 260, "dirt": 0.3, "file_interval": "10s"}
PING_EVERY = "3s"
FILES_PER_START = 8
_QUIET_FILES = 24
_FILES_BEFORE_START = 2
_RELEASE_S = 0.5
_REACHED_WITHIN_S = 90
_POLL_S = 0.001
_NAMED = 3


@dataclass(frozen=True)
class Cut:
    """One kill: its boundary, whether the job reached it in time, and whether the files show exactly it afterwards.

    `stage` is how far the kill left a micro-batch of `sessionize`, whatever the boundary. `up_s` is the time from the
    start to its first commit, None where it was killed before.
    """

    boundary: Boundary
    reached: bool
    is_exact: bool
    batch_id: int
    stage: Stage
    up_s: float | None


@dataclass(frozen=True)
class Run:
    """The tables of a job after its last stop, and the oracle's.

    `engine_deaths` says how the job ended each time that only its engine was killed.
    """

    job: Job
    oracle: Oracle
    actual: Tables
    exit_code: int
    cuts: Sequence[Cut]
    engine_deaths: Sequence[Ended]
    seconds: float


def options_of(rules: Rules) -> tuple[str, ...]:
    """The options that give a job its rules."""
    silence = () if rules.inactivity_timeout_ms is None else (f"--inactivity-timeout={rules.inactivity_timeout_ms}ms",)
    return (
        f"--heartbeat={rules.heartbeat_ms}ms",
        f"--session-timeout={rules.session_timeout_ms}ms",
        f"--late-retention={rules.late_retention_ms}ms",
        f"--max-sessions-per-device={rules.max_sessions_per_device}",
        *silence,
    )


class Scene:
    """An evening, and the job that receives it over several starts."""

    def __init__(
        self,
        seed: int,
        kills: int,
        folder: Path,
        *,
        entry: Sequence[str | Path] = (ENTRY,),
        groups: int | None = None,
        kind: type[Job] = Job,
        events: str | None = None,
        rules: Rules = RULES,
    ) -> None:
        intervals = ((kills + 1) * FILES_PER_START + _QUIET_FILES) // 2
        self._began_s = time.monotonic()
        self._events, words = DEFAULT, {}
        if events is not None:
            self._events, words = yaml.safe_load(events), {"events": str(folder / "events.yml")}
            (folder / "events.yml").write_text(events)
        pings = {"ping": PING_EVERY} if rules.has_activity else {}
        played = EVENING | words | pings | {"duration": f"{intervals * 10}s"}
        self._evening = Evening(folder / "staging", seed=seed, **played)
        self._rng = random.Random(seed)
        self._cuts: list[Cut] = []
        self._engine_deaths: list[Ended] = []
        self._kills_engine_alone = itertools.cycle([True, False])
        self._groups, self._rules = groups, rules
        grouping = () if groups is None else (f"--device-groups={groups}",)
        given = (f"--events={file}" for file in words.values())
        self.job = kind(folder, *PACE, *options_of(rules), *grouping, *given, entry=entry)
        self.traces = Traces(self.job)

    def release(self, files: int) -> None:
        """Move the next files of the evening into the input folder."""
        self.job.release(self._evening, files)

    def cut(self, boundary: Boundary) -> None:
        """Start the job, and kill it at a boundary, or when the time to reach it is over.

        At every second random moment only the engine is killed, as the kernel does when memory runs out.
        """
        self.job.release(self._evening, _FILES_BEFORE_START)
        committed = self.traces.committed()
        target = moment(boundary, self.traces, self._rng)
        files = 0 if target.is_quiet else FILES_PER_START - _FILES_BEFORE_START
        started_s = time.monotonic()
        next_s = started_s
        up_s: float | None = None
        reached = False

        def is_over() -> bool:
            nonlocal files, next_s, up_s, reached
            reached = target.reached()
            if reached:
                return True
            now_s = time.monotonic()
            if up_s is None and self.traces.committed() > committed:
                up_s = now_s - started_s
            if up_s is not None and files and now_s >= next_s:
                self.job.release(self._evening, 2)
                files, next_s = files - 2, now_s + _RELEASE_S
            return up_s is not None and now_s >= started_s + up_s + _REACHED_WITHIN_S

        self.job.start()
        self.job.wait_until(is_over, f"the boundary {boundary}", poll_s=_POLL_S)
        if boundary is Boundary.AT_RANDOM and next(self._kills_engine_alone):
            self._kill_engine()
        else:
            self.job.kill()
        batch_id, stage = self.traces.stage()
        self._cuts.append(Cut(boundary, reached, reached and target.is_exact(), batch_id, stage, up_s))

    def _kill_engine(self) -> None:
        os.kill(engine_of(self.job.pid), signal.SIGKILL)
        code, lines = self.job.wait_for_end(), self.job.output_lines()
        strange = [line for line in lines if not line.startswith("sessionize: ")]
        self._engine_deaths.append(Ended(code, [*strange, *lines[-1:]]))

    def play_on(self) -> None:
        """Start the job, and let it read the rest of the evening."""
        self.job.start()
        self.play_rest()

    def play_rest(self) -> None:
        """Let the running job read the rest of the evening."""
        step = max(2, len(self._evening) // 10)
        next_s = time.monotonic() + _RELEASE_S

        def released() -> bool:
            nonlocal next_s
            if time.monotonic() >= next_s:
                self.job.release(self._evening, step)
                next_s = time.monotonic() + _RELEASE_S
            return not len(self._evening)

        self.job.wait_until(released, "the end of the evening")
        self.job.wait_until_done()
        time.sleep(self._rng.uniform(1, 3))

    def end(self) -> Run:
        """Start the job for the last time, play the rest of the evening, and stop it gracefully."""
        self.play_on()
        return self.stop()

    def stop(self) -> Run:
        """Stop the job gracefully, and compute the tables and the state that it must have."""
        exit_code = self.job.terminate()
        source = self.job.messages()
        oracle = build_oracle(self.job.checkpoints, self._rules, source, groups=self._groups, events=self._events)
        cuts = _with_confirmed_timer_batches(self._cuts, oracle)
        seconds = time.monotonic() - self._began_s
        return Run(self.job, oracle, read_tables(self.job.warehouse), exit_code, cuts, self._engine_deaths, seconds)


def play(
    seed: int,
    kills: int,
    folder: Path,
    *,
    boundaries: Sequence[Boundary] = tuple(Boundary),
    entry: Sequence[str | Path] = (ENTRY,),
    groups: int | None = None,
    kind: type[Job] = Job,
    events: str | None = None,
    rules: Rules = RULES,
) -> Run:
    """Play an evening to a job that is killed at all boundaries equally often, and then no more.

    Args:
        seed: decides the evening, the order of the boundaries, and the random moments.
        kills: the number of kills, which determines the length of the evening.
        folder: an empty one.
        boundaries: where to kill.
        entry: the script to run, and its first arguments.
        groups: the job's `--device-groups`.
        kind: the class of the job, which says where its folders are.
        events: the text of the job's event map, by default `default`.
        rules: the job's. With an inactivity timeout the players send pings; the map has to know them.
    """
    scene = Scene(seed, kills, folder, entry=entry, groups=groups, kind=kind, events=events, rules=rules)
    order = [boundaries[at % len(boundaries)] for at in range(kills)]
    random.Random(seed).shuffle(order)
    with scene.job:
        for boundary in order:
            scene.cut(boundary)
        return scene.end()


def compare(run: Run, spark: SparkSession) -> list[str]:
    """All differences of a run, and whether its last stop failed."""
    found = differences_of_job(run.job, run.oracle, run.actual, spark)
    return found if run.exit_code == 0 else [*found, f"the last stop ended with exit code {run.exit_code}"]


def differences_of_job(job: Job, oracle: Oracle, actual: Tables, spark: SparkSession) -> list[str]:
    """All differences of a stopped job: in tables, files read, state and timers, and messages without a trace."""
    found = differences(oracle, actual, job.checkpoints)
    files = Counter(job.input.glob("*/*.json"))
    found += [f"{query} has not read every file once" for query, read in oracle.files.items() if Counter(read) != files]
    id_type = "string" if oracle.events.get("session_id_type") == "text" else "bigint"
    entries, timers = entries_and_timers(spark, job.location_of(job.checkpoints), id_type)
    missing, too_much = Counter(oracle.entries) - Counter(entries), Counter(entries) - Counter(oracle.entries)
    if missing or too_much:
        found.append(f"state: missing {list(missing)[:_NAMED]}, too much {list(too_much)[:_NAMED]}")
    if late := late_timers(timers, oracle.timers):
        found.append(f"timers: none in time for {late[:_NAMED]}")
    return found + unaccounted(actual, pending_ends(oracle), oracle.events, has_activity=oracle.has_activity)


def pending_ends(oracle: Oracle) -> list[tuple[str, int]]:
    """The Ends whose Start may still come."""
    return [(device_id, session_id) for device_id, session_id, status in oracle.entries if status == "pending_end"]


def _with_confirmed_timer_batches(cuts: Sequence[Cut], oracle: Oracle) -> list[Cut]:
    """A timer batch counts only if a timer was due in it: then it has changes, though it has no input."""
    return [
        replace(cut, is_exact=cut.is_exact and oracle.measured["sessionize", cut.batch_id].has_clock)
        if cut.boundary is Boundary.TIMER_BATCH
        else cut
        for cut in cuts
    ]
