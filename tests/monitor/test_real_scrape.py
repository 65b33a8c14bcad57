"""A real Prometheus answers the queries of the rules and of the dashboard from the metrics of a real job.

Needs prometheus and promtool on PATH: the packages cmd/prometheus and cmd/promtool of the Go module
github.com/prometheus/prometheus build both, with the tag remove_all_sd in less time.
"""

import json
import math
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sessionization_simulator.simulate_job import simulate
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.support.job import Job
from tests.support.metrics_endpoint import MetricsEndpoint, free_port
from tests.support.prometheus_files import ALERTS, RECORDED, RULE_GROUPS, RULES_FILE, names_in, queries, served_names

pytestmark = pytest.mark.job

EVENINGS = Path(__file__).with_name("prometheus_rules.test.yml")
NEEDS_KAFKA, NEEDS_A_DAY = "sessionization_backlog_messages", "sessionization:growth"
WITHIN_S = 120
"""How long a job on a busy machine may take until every metric has a value."""


@dataclass
class Scraped:
    """A running job on a simulated evening, and the address of its Prometheus."""

    job: MetricsEndpoint
    prometheus: str | None = None

    def ask(self, query: str) -> list[dict[str, Any]]:
        """Let Prometheus evaluate a query now; returns its samples."""
        url = f"http://{self.prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)
        assert found["status"] == "success"
        return list(found["data"]["result"])


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A job with every metric that a job on files has, scraped by Prometheus from its start on."""
    folder = tmp_path_factory.mktemp("scraped")
    found = Scraped(MetricsEndpoint())
    job = Job(folder, "--heartbeat=2s", f"--metrics-port={found.job.port}")
    evening = {"output": job.input, "live": 30, "duration": "2m", "session_length": "40s", "pace": "max", "dirt": 0.3}
    simulate(SimulateSettings.model_validate(evening), report=lambda _: None)
    server = start_prometheus(folder, found)
    try:
        job.start()
        job.wait_until(lambda: found.job.serves(served_names() - {NEEDS_KAFKA}), "every metric has a value", poll_s=0.5)
        yield found
    finally:
        job.kill_if_running()
        server.terminate()
        server.wait(30)


def start_prometheus(folder: Path, scraped: Scraped) -> "subprocess.Popen[bytes]":
    """Start a Prometheus that scrapes and evaluates every second, with the rules as they are but for their interval."""
    scraped.prometheus = f"127.0.0.1:{free_port()}"
    yaml = YAML(typ="safe")
    yaml.dump({"groups": [group | {"interval": "1s"} for group in RULE_GROUPS]}, folder / "rules.yml")
    targets = [{"job_name": "evening", "static_configs": [{"targets": [scraped.job.address]}]}]
    intervals = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": intervals, "rule_files": ["rules.yml"], "scrape_configs": targets}
    yaml.dump(config, folder / "prometheus.yml")
    words = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen([*words, f"--web.listen-address={scraped.prometheus}"], stdout=log, stderr=log)


@pytest.mark.long
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="no program prometheus on PATH")
def test_prometheus_answers_every_query_from_a_real_job(scraped: Scraped) -> None:
    waiting = {
        query
        for query in queries()
        if query not in {*ALERTS.values(), RECORDED[NEEDS_A_DAY]}
        and not {NEEDS_KAFKA, NEEDS_A_DAY} & set(names_in(query))
    }
    deadline_s = time.monotonic() + WITHIN_S
    while waiting and time.monotonic() < deadline_s:
        waiting = {query for query in waiting if not any(is_number(sample) for sample in scraped.ask(query))}
        time.sleep(1)
    assert waiting == set(), "no answer, or none that is a number"
    assert all(isinstance(scraped.ask(query), list) for query in queries())
    firing = {sample["metric"]["alertname"] for sample in scraped.ask('ALERTS{alertstate="firing"}')}
    assert "quarantine_share" in firing, "the evening is dirty"
    assert not firing - {"quarantine_share", "late_heartbeats", "backlog"}, "only a busy machine sets off the last two"


def is_number(sample: dict[str, Any]) -> bool:
    return not math.isnan(float(sample["value"][1]))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no program promtool on PATH")
@pytest.mark.parametrize(
    "words", [["check", "rules", "--lint-fatal", str(RULES_FILE)], ["test", "rules", str(EVENINGS)]]
)
def test_promtool_accepts_the_rules_and_they_fire_in_the_evenings_that_they_are_for(words: list[str]) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
