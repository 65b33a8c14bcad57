"""Every micro-batch is recorded once, in order; a slow or broken record consumer never affects the stream."""

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessionization.monitor import batch_monitor, record_consumer
from sessionization.monitor.batch_log import BatchLog
from sessionization.monitor.batch_monitor import BatchMonitor, monitor_batches, monitor_with
from sessionization.monitor.batch_record import Record, batch_record
from sessionization.monitor.record_consumer import RecordConsumer
from sessionization.spark.output.progress import BatchDetail, DelaySample
from tests.support.monitored import ENDS_BY_REASON, Session, Taken, engine, query_progress, sessionize_progress
from tests.support.waiting import wait_for


@pytest.fixture
def lines() -> list[str]:
    return []


def test_a_record_has_the_sinks_counts_and_the_engines_progress() -> None:
    kafka = {
        "description": "KafkaV2[Subscribe[pc_sessions]]",
        "endOffset": '{"pc_sessions":{"0":10,"1":20},"console_sessions":{"0":5}}',
        "latestOffset": '{"pc_sessions":{"0":15,"1":20},"console_sessions":{"0":7}}',
    }
    record = batch_record(sessionize_progress(17, state_rows=1), engine(17, **kafka))
    assert record == {
        "at": "2025-11-21T12:00:00.123+00:00",
        "query": "sessionize",
        "batch_id": 17,
        "rows_in": 7,
        "batch_ms": 500,
        "started": 3,
        "heartbeats": 5,
        "ended": 4,
        "ends": ENDS_BY_REASON,
        "duplicate_start": 1,
        "duplicate_end": 0,
        "evicted": 0,
        "lateness_p50_ms": 100,
        "lateness_p99_ms": 200,
        "lateness_max_ms": 250,
        "latency_p50_ms": 30,
        "latency_p99_ms": 60,
        "latency_max_ms": 70,
        "write_ms": 40,
        "state_rows": 70,  # of this micro-batch; the sink has the count of the previous one
        "state_bytes": 4096,
        "state_commit_ms": 33,
        "skew": 3.0,  # 9 of 12 rows in one of 4 partitions
        "backlog": 7,
        "phases_ms": {"addBatch": 450, "walCommit": 20},
    }


def test_without_kafka_there_is_no_backlog_and_without_rows_no_skew() -> None:
    record = batch_record(query_progress("sessionize", detail=BatchDetail(rows_out=0)), engine())
    assert not {"backlog", "skew"} & record.keys()


def test_every_micro_batch_is_recorded_once_in_order_with_the_engines_progress_if_it_came(lines: list[str]) -> None:
    session, received = Session(), Taken()
    consumer = RecordConsumer("a list", received, lines.append)
    with monitor_with(session, [consumer], lines.append) as add:  # type: ignore[arg-type]
        session.hears(engine(0))  # the sink has not reported it yet
        for batch_id in range(5):
            add(sessionize_progress(batch_id))
        session.hears(engine(1, name="somebody_else"))
        session.hears(engine(2))
        session.hears(engine(2))
        session.hears(engine(1))  # too late
    assert [(record["batch_id"], "phases_ms" in record) for record in received.records] == [
        (0, False),
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]
    assert (session.listeners, lines) == ([], [])


def test_few_micro_batches_wait_for_an_engine_that_reports_nothing(lines: list[str]) -> None:
    received = Taken()
    consumer = RecordConsumer("a list", received, lines.append)
    monitor = BatchMonitor([consumer])
    for batch_id in range(batch_monitor.MOST_UNPAIRED + 3):
        monitor.add(sessionize_progress(batch_id))
    consumer.close()
    assert [record["batch_id"] for record in received.records] == [0, 1, 2]


def test_a_consumer_that_blocks_delays_neither_the_stream_nor_other_consumers(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_consumer, "CLOSE_WITHIN_S", 0.1)
    session, received, gate = Session(), Taken(), threading.Event()
    consumers = [
        RecordConsumer("a wall", lambda *_: bool(gate.wait(60)), lines.append),
        RecordConsumer("a list", received, lines.append),
    ]
    began_s = time.monotonic()
    with monitor_with(session, consumers, lines.append) as add:  # type: ignore[arg-type]
        for batch_id in range(2 * record_consumer.MAX_QUEUED):
            add(sessionize_progress(batch_id))
            session.hears(engine(batch_id))
            if batch_id % 100 == 0:
                wait_for(lambda: len(received.records) > batch_id, within_s=5)  # noqa: B023 - called at once
        wait_for(lambda: len(received.records) == 2 * record_consumer.MAX_QUEUED, within_s=5)
    assert time.monotonic() - began_s < 5
    assert lines == ["a wall was too slow: it lacks micro-batches, the tables have them all"]
    gate.set()


def test_a_consumer_that_fails_is_reported_once_and_tried_again(lines: list[str]) -> None:
    session, received = Session(), Taken()
    received_by_other = Taken()

    def fails_until_the_third(record: Record, detail: BatchDetail) -> None:
        if record["batch_id"] < 3:
            msg = "no space left\nand much more"
            raise OSError(msg)
        received(record, detail)

    consumers = [
        RecordConsumer("a full disk", fails_until_the_third, lines.append),
        RecordConsumer("a list", received_by_other, lines.append),
    ]
    with monitor_with(session, consumers, lines.append) as add:  # type: ignore[arg-type]
        for batch_id in range(5):
            add(sessionize_progress(batch_id))
            session.hears(engine(batch_id))
    assert [record["batch_id"] for record in received.records] == [3, 4]
    assert len(received_by_other.records) == 5
    assert lines == ["a full disk fails (no space left): the stream goes on without"]


def test_engine_progress_in_an_unknown_form_is_a_failure_of_the_consumer_only(lines: list[str]) -> None:
    session, received = Session(), Taken()
    consumer = RecordConsumer("a list", received, lines.append)
    with monitor_with(session, [consumer], lines.append) as add:  # type: ignore[arg-type]
        add(sessionize_progress(0))
        session.hears(SimpleNamespace(name="sessionize", batchId=0))
    assert received.records == []
    assert "a list fails" in lines[0]


def test_the_batch_log_is_a_rolled_file_of_json_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization.monitor.batch_log.MOST_BYTES", 1000)
    log = BatchLog(tmp_path / "batches.log")
    for batch_id in range(100):
        log({"query": "a % sign", "batch_id": batch_id}, BatchDetail())
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["batches.log", *(f"batches.log.{number}" for number in (1, 2, 3))]
    assert json.loads(files[0].read_text().splitlines()[-1]) == {"query": "a % sign", "batch_id": 99}


def test_the_batch_log_of_a_cluster_is_its_stderr(capfd: pytest.CaptureFixture[str], lines: list[str]) -> None:
    with monitor_batches(Session(), None, None, 30_000, lines.append) as add:  # type: ignore[arg-type]
        add(sessionize_progress(4, detail=BatchDetail(latency=DelaySample(2, (70, 80)))))
    fields = json.loads(capfd.readouterr().err)
    assert fields["batch_id"] == 4
    assert not fields.keys() & {"latency", "lateness"}, "they are for the metrics only"


def test_a_batch_log_that_cannot_be_written_is_reported(tmp_path: Path, lines: list[str]) -> None:
    log = tmp_path / "nowhere" / "batches.log"
    with monitor_batches(Session(), log, None, 30_000, lines.append) as add:  # type: ignore[arg-type]
        add(sessionize_progress())
    assert len(lines) == 1
    assert "No such file or directory" in lines[0]
