"""What the jobs beside the stream take where there are many sessions: `python -m tests.bench.jobs --live 100000`."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.scenario import LONG_LIVED
from tests.e2e.delta import read_table
from tests.e2e.job import ROOT, Job, environment

_A_WHILE_S = 75
CATCH_UP_S = 1_200
_SHOWN = 8
QUESTIONS = {
    "sessions": "SELECT status, end_reason, count(*) AS sessions FROM sessions GROUP BY ALL ORDER BY 1, 2",
    "a second `started`": "SELECT count(*) AS doubled FROM (SELECT 1 FROM session_changes WHERE change = 'started' "
    "GROUP BY device_id, session_id HAVING count(*) > 1)",
    "account_sessions": "SELECT count(*) AS sittings, sum(sessions) AS sessions, sum(duration_ms) FROM account_sessions",
    "concurrent_sessions": "SELECT platform, count(*) AS minutes, max(peak) FROM concurrent_sessions GROUP BY ALL",
}


def main() -> int:
    """Exits with code 1 where a job has failed; then the folder is kept."""
    options = begin("python -m tests.bench.jobs", __doc__)
    folder = Path(tempfile.mkdtemp(prefix="jobs-"))
    sys.stdout.write(f"in {folder}\n")
    is_good = _all(folder, options.live, options.ended)
    if is_good:
        shutil.rmtree(folder)
    return 0 if is_good else 1


def begin(prog: str, description: str | None) -> argparse.Namespace:
    """The load that was asked for, `live` and `ended` sessions; sets up what the jobs inherit."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--live", type=int, default=100_000)
    parser.add_argument("--ended", type=int, default=20_000, help="about so many sessions have ended by then")
    os.environ["JAVA_TOOL_OPTIONS"] = "-Dfile.encoding=UTF-8"  # not those that suit a run of a minute
    return parser.parse_args()


def _all(folder: Path, live: int, ended: int) -> bool:
    job = Job(folder, f"--expected-devices={live}")
    location, checkpoints = f"--warehouse={job.warehouse}", f"--checkpoints={job.checkpoints}"
    load = (f"--live={live}", f"--rate={ended / 30:.0f}", "--duration=60s", "--pace=max", "--dirt=0.02")
    done = [
        timed("simulate", f"--output={job.input}", *load),
        _until_done(job),
        *(asked(location, question) for question in QUESTIONS),
        timed("inspect_state", checkpoints),
        timed("rescale_state", checkpoints, "--partitions=5"),
        timed("rescale_state", checkpoints, "--partitions=3"),
        _for_a_while(job),
        timed("inspect_state", checkpoints),
        timed("backfill", location, checkpoints),
        timed("backfill", location, checkpoints, "--verify"),
        timed("maintain", location, checkpoints, "--days=1"),
        timed(
            "erase_account", location, checkpoints, f"--account={_somebody(job.warehouse)}", code=1
        ),  # the state knows it
    ]
    job.checkpoints.rename(folder / "lost")
    job.more, job.input = ("--from-sessions",), folder / "input-after"
    job.input.mkdir()
    done += [
        _for_a_while(job),
        timed("inspect_state", checkpoints),
        *(asked(location, question) for question in QUESTIONS),
    ]
    return all(done)


def _until_done(job: Job) -> bool:
    """Run the job until the tables hold all that follows from the input."""
    began_s = time.monotonic()
    job.conf = LONG_LIVED
    job.start()
    try:
        job.wait_until_done(CATCH_UP_S)
        say(f"sessionize, until all is in the tables: {time.monotonic() - began_s:.1f} s")
        code = job.terminate()
    finally:
        job.kill_if_running()
    show(job.said())
    return code == 0


def _for_a_while(job: Job) -> bool:
    """Let the job go on where it was, for some heartbeats."""
    job.conf = LONG_LIVED
    job.start()
    try:
        job.wait_until(lambda: "heartbeats" in "".join(job.said()[-1:]), "the first line of progress", poll_s=0.2)
        time.sleep(_A_WHILE_S)
        code = job.terminate()
    finally:
        job.kill_if_running()
    say("sessionize, for some heartbeats")
    show(job.said())
    return code == 0


def asked(location: str, question: str) -> bool:
    """Ask one of the questions of the tables."""
    say(question)
    return timed("query", location, f"--sql={QUESTIONS[question]}")


def timed(job: str, *options: str, code: int = 0) -> bool:
    """Run a job to its end, and say how long it took and the last of what it said; whether it ended with `code`."""
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(ROOT / "jobs" / f"{job}.py"), *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    say(f"{job}: {time.monotonic() - began_s:.1f} s, exit code {done.returncode}")
    show(done.stdout.splitlines())
    return done.returncode == code


def _somebody(warehouse: Path) -> str:
    """The account of a session that has ended."""
    return next(
        account
        for account, status in read_table(warehouse / "sessions").of("account_id", "status")
        if account is not None and status != "live"
    )


def show(lines: Sequence[str]) -> None:
    """Say the last of what a job said."""
    for line in lines[-_SHOWN:]:
        say(f"    {line}")


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
