"""Measure the job players by the age of the tables: `python -m tests.bench.players --days 30 365`.

Fills a warehouse for each age, computes all days once, and then in turn, young and old: a run after the changes of an
hour, and one after the late End of a session of 20 days ago.
"""

import argparse
import statistics
import sys
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import functions as F

from sessionization.players.players_job import create_player_tables, update
from sessionization.players.players_settings import PlayersSettings
from sessionization.spark.engine.generated_code import generate_code
from sessionization.spark.engine.session import spark_session
from tests.bench.age import Stand
from tests.bench.processes import cpu_s
from tests.bench.report import say
from tests.support.settings import settings_of
from tests.support.warehouse import merge_changes

LATE_DAYS = 20
HOUR, LATE = "after an hour's changes", f"after a late End of {LATE_DAYS} days ago"


def run(stand: Stand) -> tuple[float, float]:
    """Seconds of a run, and how many cores it used on average."""
    settings = settings_of(PlayersSettings, warehouse=stand.folder)
    began_s, began_cpu_s = time.monotonic(), cpu_s().total()
    update(stand.spark, stand.location, settings, lambda _: None)
    took_s = time.monotonic() - began_s
    return took_s, (cpu_s().total() - began_cpu_s) / took_s


def merge_hour(stand: Stand, number: int) -> None:
    """What `rollup` merges in an hour: as many Starts as ends, and few corrections of three days ago."""
    batch = stand.micro_batch().withColumn("processed_at", F.lit(stand.now + timedelta(hours=number)))
    merge_changes(stand.spark, stand.location, batch.persist())


def merge_late_end(stand: Stand, number: int) -> None:
    """One session of 20 days ago ends a minute earlier than it did."""
    first = stand.ended - LATE_DAYS * stand.per_day + number
    old = stand.changes_of(stand.spark.range(first, first + 1).select("id", F.lit("ended").alias("change")))
    earlier = F.col("ended_at") - F.expr("INTERVAL 1 MINUTE")
    late = old.withColumns({
        "ended_at": earlier, "revision": F.lit(number),
        "processed_at": F.lit(stand.now + timedelta(hours=number)),
    })  # fmt: skip
    merge_changes(stand.spark, stand.location, late)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.players", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(".bench/players"))
    parser.add_argument("--days", type=int, nargs="+", default=[30, 365])
    parser.add_argument("--per-day", type=int, default=274_000)
    parser.add_argument("--live", type=int, default=100_000)
    parser.add_argument("--devices", type=int, default=1_000_000, help="devices that play, each at random")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    spark = spark_session(options.folder / "engine.log")
    generate_code(spark)
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=100)
    hour = options.per_day // 24 * 2
    stands = [
        Stand(spark, options.folder / f"{days}-days", days, options.per_day, options.live, hour, now, "integer",
              options.devices)
        for days in options.days
    ]  # fmt: skip
    for stand in stands:
        stand.fill()
        create_player_tables(spark, stand.location)
        seconds, cores = run(stand)
        say(f"{stand.days} days: a first run took {seconds:.0f} s, {cores:.1f} cores")
    took: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for number in range(1, options.repeats + 2):
        for name, merge in ((HOUR, merge_hour), (LATE, merge_late_end)):
            for stand in stands:
                merge(stand, 2 * number + (name is LATE))
                measured = run(stand)
                if number > 1:  # the first one warms up
                    took[name, stand.days].append(measured)
    for (name, days), runs in took.items():
        seconds = [run_s for run_s, _ in runs]
        cores = statistics.median(run_cores for _, run_cores in runs)
        median = f"{statistics.median(seconds):.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"
        say(f"{name}, {days} days: {median}, {cores:.1f} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())
