"""Measure the jobs around the stream with many sessions: `python -m tests.bench.jobs --live 100000`."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench.scenario import LONG_LIVED, LONG_LIVED_JAVA_OPTIONS
from tests.support.delta import read_table
from tests.support.job import ROOT, Job, environment

_RUN_FOR_S = 75
CATCH_UP_S = 1_200
_SHOWN_LINES = 8
QUESTIONS = {
    "sessions": "SELECT status, end_reason, count(*) AS sessions FROM sessions GROUP BY ALL ORDER BY 1, 2",
    "a second `started`": "SELECT count(*) AS doubled FROM (SELECT 1 FROM session_changes WHERE change = 'started' "
    "GROUP BY device_id, session_id HAVING count(*) > 1)",
    "account_sessions": "SELECT count(*) AS sittings, sum(sessions) AS sessions, sum(duration_ms) "
    "FROM account_sessions",
    "concurrent_sessions": "SELECT platform, count(*) AS minutes, max(peak) FROM concurrent_sessions GROUP BY ALL",
}


def main() -> int:
    """Exits with code 1 if a job failed; the folder then stays."""
    options = parse_load("python -m tests.bench.jobs", __doc__)
    folder = Path(tempfile.mkdtemp(prefix="jobs-"))
    sys.stdout.write(f"in {folder}\n")
    is_good = _run_all(folder, options.live, options.ended)
    if is_good:
        shutil.rmtree(folder)
    return 0 if is_good else 1


def parse_load(prog: str, description: str | None) -> argparse.Namespace:
    """Parse the load, `live` and `ended` sessions; sets the environment that the jobs inherit."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--live", type=int, default=100_000)
    parser.add_argument("--ended", type=int, default=20_000, help="about this many sessions end during the load")
    os.environ["JAVA_TOOL_OPTIONS"] = LONG_LIVED_JAVA_OPTIONS
    return parser.parse_args()


def _run_all(folder: Path, live: int, ended: int) -> bool:
    job = Job(folder, f"--expected-devices={live}")
    location, checkpoints = f"--warehouse={job.warehouse}", f"--checkpoints={job.checkpoints}"
    load = (f"--live={live}", f"--rate={ended / 30:.0f}", "--duration=60s", "--pace=max", "--dirt=0.02")
    results = [
        run_timed("simulate", f"--output={job.input}", *load),
        _run_until_caught_up(job),
        *(run_query(location, question) for question in QUESTIONS),
        run_timed("inspect_state", checkpoints),
        run_timed("rescale_state", checkpoints, "--partitions=5"),
        run_timed("rescale_state", checkpoints, "--partitions=3"),
        _run_for_some_heartbeats(job),
        run_timed("inspect_state", checkpoints),
        run_timed("backfill", location, checkpoints),
        run_timed("backfill", location, checkpoints, "--verify"),
        run_timed("maintain", location, checkpoints, "--days=1"),
        run_timed(
            "erase_account", location, checkpoints, f"--account={_account_of_an_ended_session(job.warehouse)}", code=1
        ),  # the state still holds the account
    ]
    job.checkpoints.rename(folder / "lost")
    job.more, job.input = ("--from-sessions",), folder / "input-after"
    job.input.mkdir()
    results += [
        _run_for_some_heartbeats(job),
        run_timed("inspect_state", checkpoints),
        *(run_query(location, question) for question in QUESTIONS),
    ]
    return all(results)


def _run_until_caught_up(job: Job) -> bool:
    """Run the job until the tables hold every result of the input."""
    began_s = time.monotonic()
    job.conf = LONG_LIVED
    job.start()
    with job:
        job.wait_until_done(CATCH_UP_S)
        say(f"sessionize, until all is in the tables: {time.monotonic() - began_s:.1f} s")
        code = job.terminate()
    show(job.output_lines())
    return code == 0


def _run_for_some_heartbeats(job: Job) -> bool:
    """Restart the job on its checkpoint and run it for some heartbeats."""
    job.conf = LONG_LIVED
    job.start()
    with job:
        job.wait_until(
            lambda: "heartbeats" in "".join(job.output_lines()[-1:]), "the first line of progress", poll_s=0.2
        )
        time.sleep(_RUN_FOR_S)
        code = job.terminate()
    say("sessionize, for some heartbeats")
    show(job.output_lines())
    return code == 0


def run_query(location: str, question: str) -> bool:
    """Run one of the queries in `QUESTIONS`."""
    say(question)
    return run_timed("query", location, f"--sql={QUESTIONS[question]}")


def run_timed(job: str, *options: str, code: int = 0) -> bool:
    """Run a job to its end and print its duration and last lines; returns whether its exit code is `code`."""
    began_s = time.monotonic()
    process = subprocess.run(
        [sys.executable, str(ROOT / "jobs" / f"{job}.py"), *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    say(f"{job}: {time.monotonic() - began_s:.1f} s, exit code {process.returncode}")
    show(process.stdout.splitlines())
    return process.returncode == code


def _account_of_an_ended_session(warehouse: Path) -> str:
    """The account of any session that has ended."""
    return next(
        account
        for account, status in read_table(warehouse / "sessions").of("account_id", "status")
        if account is not None and status != "live"
    )


def show(lines: Sequence[str]) -> None:
    """Print the last lines of a job."""
    for line in lines[-_SHOWN_LINES:]:
        say(f"    {line}")


def say(line: str) -> None:
    """Print a line without buffering."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
