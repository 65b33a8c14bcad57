"""The monitor next to real queries: it receives a record of every micro-batch, and cannot delay the queries."""

import threading
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.monitor import record_consumer
from sessionization.monitor.batch_monitor import monitor_with
from sessionization.monitor.metrics import Metrics
from sessionization.monitor.prometheus import serve_metrics
from sessionization.monitor.record_consumer import RecordConsumer
from sessionization.spark.checkpoint.folder import ROLLUP, SESSIONIZE
from tests.support.monitored import Taken
from tests.support.stream_job import Job, message
from tests.support.waiting import wait_for

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_the_monitor_records_every_micro_batch_and_consumers_that_hang_or_fail_stop_no_query(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_consumer, "CLOSE_WITHIN_S", 1)
    job = Job(spark, tmp_path)
    lines: list[str] = []
    received, metrics, gate = Taken(), Metrics(500), threading.Event()

    def failing_consumer(*_: object) -> None:
        raise BrokenPipeError

    consumers = {
        "a wall": lambda *_: gate.wait(300),
        "a broken pipe": failing_consumer,
        "a list": received,
        "metrics": metrics,
    }
    outlets = [RecordConsumer(name, take, lines.append) for name, take in consumers.items()]  # type: ignore[arg-type]

    def values_of(query: str, field: str) -> list:
        return [record[field] for record in received.records if record["query"] == query and field in record]

    with monitor_with(spark, outlets, lines.append) as add, serve_metrics("127.0.0.1", 0, metrics) as port:
        with job.running(report=add):
            job.send(*(message(1, "Start", f"d{number}") for number in range(10)), message(7, "EndBi", "d77"))
            wait_for(lambda: job.count(change="heartbeat") >= 10, "heartbeats")
            job.send(*(message(1, "EndBi", f"d{number}") for number in range(4)))
            wait_for(lambda: job.count(end_reason="reported") == 4, "ends")
            wait_for(lambda: job.count(end_reason="orphaned") == 1, "the orphan")
            wait_for(lambda: values_of("rollup", "live")[-1:] == [6], "six live sessions")
            wait_for(lambda: sum(values_of("archive", "rows_in")) == 15, "all messages")
            wait_for(
                lambda: sum(ends["orphaned"] for ends in values_of("sessionize", "ends")) == 1,
                "the record of the orphan",
            )
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    gate.set()

    for query in ("sessionize", "archive", "rollup"):
        batch_ids = values_of(query, "batch_id")
        assert batch_ids == list(range(len(batch_ids)))
        assert values_of(query, "phases_ms")
        assert all("addBatch" in phases for phases in values_of(query, "phases_ms"))
        assert values_of(query, "write_ms")
    assert sum(values_of("sessionize", "started")) == 10
    assert sum(ends["reported"] for ends in values_of("sessionize", "ends")) == 4
    assert values_of("sessionize", "lateness_p99_ms")
    assert values_of("sessionize", "state_commit_ms")
    assert max(values_of("sessionize", "state_rows")) >= 10
    assert max(values_of("sessionize", "state_bytes")) > 0
    skews = values_of("sessionize", "skew")
    assert skews
    assert all(1 <= skew <= 2 for skew in skews)  # of two partitions
    assert "sessionization_live_sessions 6.0\n" in text
    assert 'sessionization_ended_total{reason="reported"} 4.0\n' in text
    assert sorted(lines) == [
        "a broken pipe fails (BrokenPipeError): the stream goes on without",
        "a wall was too slow: it lacks micro-batches, the tables have them all",
    ]


@pytest.mark.long
def test_the_count_of_live_sessions_continues_from_the_table_after_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path)
    live: list[int | None] = []

    def report(progress: object) -> None:
        if getattr(progress, "query", None) == "rollup":
            live.append(progress.detail.live)  # type: ignore[attr-defined]

    with job.running(SESSIONIZE, ROLLUP, report=report):
        job.send(message(1, "Start", "d1"), message(1, "Start", "d2"))
        wait_for(lambda: live[-1:] == [2], "two live sessions")
    live.clear()
    with job.running(SESSIONIZE, ROLLUP, report=report):
        job.send(message(1, "EndBi", "d1"), message(2, "Start", "d2"), message(1, "Start", "d3"))
        wait_for(lambda: job.count(end_reason="superseded") == 1, "a session superseded")
        wait_for(lambda: live[-1:] == [2], "two live sessions again")
