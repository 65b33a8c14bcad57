"""Measure how long changes take through a topic: `python -m tests.bench.landing --live 100000`."""

import sys
import tempfile
import time
from pathlib import Path

from sessionization.settings.kafka_options import OUTPUT_TOPIC
from sessionization.streams import STREAMS
from sessionization_laptop.broker import Broker
from tests.bench.jobs import CATCH_UP_S, parse_load, run_query, run_timed, say, show
from tests.bench.scenario import LONG_LIVED
from tests.support.checkpoints import committed_offsets
from tests.support.job import Job
from tests.support.landing import Landing
from tests.support.topics import Topics

_PARTITIONS = 4


def main() -> int:
    """Exits with code 1 if a job failed."""
    options = parse_load("python -m tests.bench.landing", __doc__)
    with tempfile.TemporaryDirectory(prefix="landing-") as name:
        folder = Path(name)
        with Broker(folder) as broker:
            broker.create_topics(dict.fromkeys((*STREAMS, OUTPUT_TOPIC), _PARTITIONS))
            return 0 if _run_all(folder, broker.bootstrap_servers, options.live, options.ended) else 1


def _run_all(folder: Path, servers: str, live: int, ended: int) -> bool:
    load = (f"--live={live}", f"--rate={ended / 30:.0f}", "--duration=60s", "--pace=max", "--dirt=0.02")
    is_good = run_timed("simulate", "--sink=kafka", f"--bootstrap-servers={servers}", *load)
    job = Job(folder, "--sink=kafka", f"--expected-devices={live}", topics=Topics(servers, _PARTITIONS))
    job.conf = LONG_LIVED
    landing = Landing(job, folder / "landing", servers)
    began_s = time.monotonic()

    def elapsed() -> str:
        return f"{time.monotonic() - began_s:.1f} s after its start"

    try:
        job.start()
        ends = job.topics.ends() if job.topics else {}
        job.wait_until(
            lambda: committed_offsets(job.checkpoints / "sessionize") == ends,
            "all events are sent on",
            poll_s=0.2,
            within_s=CATCH_UP_S,
        )
        say(f"sessionize has sent what follows from all events {elapsed()}")
        started_s, sent = time.monotonic(), landing.ends()
        landing.start()
        job.wait_until(lambda: landing.has_landed(sent), "all is landed", poll_s=0.2, within_s=CATCH_UP_S)
        changes = f"{sum(sent.values()):,} changes, sent till then,"
        say(f"land_changes: {changes} are landed {time.monotonic() - started_s:.1f} s after its start")
        job.wait_until_done(CATCH_UP_S)
        say(f"`sessions` is complete {elapsed()}")
        is_good &= job.terminate() == 0
        is_good &= landing.terminate() == 0
    finally:
        job.kill_if_running()
        landing.kill()
    show(job.output_lines())
    location = f"--warehouse={job.warehouse}"
    return is_good & run_query(location, "sessions") & run_query(location, "a second `started`")


if __name__ == "__main__":
    sys.exit(main())
