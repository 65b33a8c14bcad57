"""The metrics next to real queries: they have the figures of sinks and engine."""

import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.job.metrics import Metrics, serve_metrics
from sessionization.spark.checkpoint.folder import ROLLUP, SESSIONIZE
from sessionization.spark.output.progress import BatchProgress
from tests.support.metrics_endpoint import MetricsEndpoint
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.spark, pytest.mark.long]


def test_the_metrics_of_a_stream_have_the_figures_of_sinks_and_engine(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    endpoint = MetricsEndpoint()

    def has(*lines: str) -> bool:
        with urllib.request.urlopen(f"http://{endpoint.address}/metrics", timeout=10) as answer:
            return set(lines) <= set(answer.read().decode().splitlines())

    with serve_metrics(spark, Metrics(500), "127.0.0.1", endpoint.port, lambda _line: None) as listeners:
        with job.running(report=listeners[0]):
            job.send(*(message(1, "Start", f"d{number}") for number in range(10)), message(7, "EndBi", "d77"))
            wait_for(lambda: job.count(change="heartbeat") >= 10, "heartbeats")
            job.send(*(message(1, "EndBi", f"d{number}") for number in range(4)))
            wait_for(lambda: has("sessionization_live_sessions 6.0"), "six live sessions")
            wait_for(lambda: has("sessionization_messages_total 15.0"), "all messages")
            wait_for(lambda: has('sessionization_ended_total{reason="orphaned"} 1.0'), "the orphan")
        assert has("sessionization_started_total 10.0", 'sessionization_ended_total{reason="reported"} 4.0')
        phases = {"phase_seconds", "state_rows", "state_bytes", "state_commit_seconds"}
        assert endpoint.serves({f"sessionization_{name}" for name in phases})


def test_the_count_of_live_sessions_continues_from_the_table_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path)
    live: list[int | None] = []

    def report(progress: BatchProgress) -> None:
        if progress.query == ROLLUP:
            live.append(progress.live)

    with job.running(SESSIONIZE, ROLLUP, report=report):
        job.send(message(1, "Start", "d1"), message(1, "Start", "d2"))
        wait_for(lambda: live[-1:] == [2], "two live sessions")
    live.clear()
    with job.running(SESSIONIZE, ROLLUP, report=report):
        job.send(message(1, "EndBi", "d1"), message(2, "Start", "d2"), message(1, "Start", "d3"))
        wait_for(lambda: job.count(end_reason="superseded") == 1, "a session superseded")
        wait_for(lambda: live[-1:] == [2], "two live sessions again")
