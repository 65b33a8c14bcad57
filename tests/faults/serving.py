"""Kill the job serve_sessions and its Postgres many times: `python -m tests.faults.serving --kills 100`.

An evening goes through the real job sessionize meanwhile. After each kill Postgres has to equal `sessions`.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median

import psycopg
from pyspark.sql import SparkSession

from sessionization.spark.engine.session import spark_session
from sessionization.spark.tables.location import TableLocation
from sessionization_laptop.postgres import Postgres
from tests.support.evening import Evening
from tests.support.harness import EVENING, PACE
from tests.support.job import Job
from tests.support.serving import SCHEMA, ServingJob, differences

KEPT = timedelta(days=1_000)
"""The evening is in the past."""
_VICTIMS = ("job", "postgres", "both", "postgres")
_LONGEST_PAUSE_S = 8
_EQUAL_WITHIN_S = 120


def main() -> int:
    """Exits with code 1 where anything differs after a kill."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.serving", description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder, rng = Path(tempfile.mkdtemp(prefix="serving-")), random.Random(options.seed)
    evening = Evening(folder / "staging", seed=options.seed, **EVENING | {"duration": f"{(options.kills + 10) * 10}s"})
    spark, victims, waits_s = spark_session(folder / "engine.log"), Counter[str](), list[float]()
    began_s = time.monotonic()
    sessionize = Job(folder, *PACE)
    with Postgres(folder / "postgres") as postgres, sessionize:
        serving = ServingJob(folder / "serving", sessionize.warehouse, postgres, f"--keep-ended={KEPT.days}d")
        sessionize.release(evening, 4)
        sessionize.start()
        sessionize.wait_until_done()
        with serving:
            serving.start()
            for kill in range(options.kills):
                victim = _VICTIMS[kill % len(_VICTIMS)]
                sessionize.release(evening, 2)
                time.sleep(rng.uniform(0, _LONGEST_PAUSE_S))
                if victim != "postgres":
                    serving.kill()
                    compared = _comparisons(serving)
                if victim != "job":
                    postgres.kill()
                    postgres.start()
                if victim != "postgres":
                    serving.start()
                killed_s = time.monotonic()
                sessionize.wait_until_done()
                if victim != "postgres":  # else what was written before the kill may already be equal
                    serving.wait_until(partial(_has_compared_since, serving, compared), "a comparison", poll_s=0.2)
                found = _wait_until_equal(spark, sessionize, postgres, serving)
                waits_s.append(time.monotonic() - killed_s)
                victims[victim] += 1
                sys.stderr.write(f"{kill} {victim}: equal after {waits_s[-1]:.1f} s\n")
                if found:
                    sys.stdout.write(f"kill {kill}, {victim}: {len(found)} differences, kept: {folder}\n")
                    sys.stdout.write("".join(f"  {row}\n" for row in found[:20]))
                    return 1
            code = serving.terminate()
        assert sessionize.terminate() == 0
        rows = _count(postgres)
    counts = ", ".join(f"{name} {count}" for name, count in victims.items())
    sys.stdout.write(
        f"{options.kills} kills ({counts}), 0 differences, {rows:,} sessions, from a kill to equal tables "
        f"median {median(waits_s):.1f} s, longest {max(waits_s):.1f} s, {(time.monotonic() - began_s) / 60:.0f} min\n"
    )
    shutil.rmtree(folder, ignore_errors=True)
    return code


def _comparisons(serving: ServingJob) -> int:
    """How many starts have compared."""
    return sum(line.endswith("follows the changes from here") for line in serving.output_lines())


def _has_compared_since(serving: ServingJob, before: int) -> bool:
    return _comparisons(serving) > before


def _wait_until_equal(spark: SparkSession, sessionize: Job, postgres: Postgres, serving: ServingJob) -> list[tuple]:
    """The differences that are left when the time is over."""
    location, deadline_s = TableLocation(sessionize.warehouse), time.monotonic() + _EQUAL_WITHIN_S
    while True:
        try:
            with psycopg.connect(postgres.conninfo, password=postgres.password) as connection:
                found = differences(spark, location, connection, SCHEMA, KEPT)
        except (psycopg.errors.UndefinedTable, psycopg.OperationalError) as error:
            found = [(str(error),)]
        if not found or time.monotonic() >= deadline_s:
            return found
        assert serving.is_running, f"the job has ended: {serving.output_lines()[-3:]}"
        time.sleep(0.3)


def _count(postgres: Postgres) -> int:
    with psycopg.connect(postgres.conninfo, password=postgres.password) as connection:
        [(count,)] = connection.execute(f"SELECT count(*) FROM {SCHEMA}.served_sessions").fetchall()
        return int(count)


if __name__ == "__main__":
    sys.exit(main())
