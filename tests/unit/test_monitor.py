"""Every micro-batch is told once, in order, and whoever is told cannot reach the stream, however slow or broken."""

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
from sessionization.spark.output.progress import BatchDetail
from tests.unit.monitored import ENDS, Session, Taken, beat, engine, other, wait_for


@pytest.fixture
def said() -> list[str]:
    return []


def test_the_record_has_what_the_sink_counted_and_what_the_engine_said() -> None:
    kafka = {
        "description": "KafkaV2[Subscribe[pc_sessions]]",
        "endOffset": '{"pc_sessions":{"0":10,"1":20},"console_sessions":{"0":5}}',
        "latestOffset": '{"pc_sessions":{"0":15,"1":20},"console_sessions":{"0":7}}',
    }
    told = batch_record(beat(17, state_rows=1), engine(17, **kafka))
    assert told == {
        "at": "2025-11-21T12:00:00.123+00:00",
        "query": "sessionize",
        "batch_id": 17,
        "rows_in": 7,
        "batch_ms": 500,
        "started": 3,
        "heartbeats": 5,
        "ended": 4,
        "ends": ENDS,
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
        "state_rows": 70,  # of this micro-batch, where the sink knows that of the one before
        "state_bytes": 4096,
        "state_commit_ms": 33,
        "skew": 3.0,  # 9 of 12 rows in one of 4 partitions
        "backlog": 7,
        "phases_ms": {"addBatch": 450, "walCommit": 20},
    }


def test_without_kafka_there_is_no_backlog_and_without_rows_no_skew() -> None:
    told = batch_record(other("sessionize", detail=BatchDetail(rows_out=0)), engine())
    assert not {"backlog", "skew"} & told.keys()


def test_every_micro_batch_is_told_once_in_order_with_the_engines_word_if_it_came(said: list[str]) -> None:
    session, taken = Session(), Taken()
    with monitor_with(session, [RecordConsumer("a list", taken, said.append)], said.append) as add:  # type: ignore[arg-type]
        session.hears(engine(0))  # nothing is known of it
        for batch_id in range(5):
            add(beat(batch_id))
        session.hears(engine(1, name="somebody_else"))
        session.hears(engine(2))
        session.hears(engine(2))
        session.hears(engine(1))  # too late
    assert [(one["batch_id"], "phases_ms" in one) for one in taken.records] == [
        (0, False),
        (1, False),
        (2, True),
        (3, False),
        (4, False),
    ]
    assert (session.listeners, said) == ([], [])


def test_a_silent_engine_leaves_no_heap_of_micro_batches(said: list[str]) -> None:
    taken = Taken()
    out = RecordConsumer("a list", taken, said.append)
    monitor = BatchMonitor([out])
    for batch_id in range(batch_monitor.MOST_UNPAIRED + 3):
        monitor.add(beat(batch_id))
    out.close()
    assert [one["batch_id"] for one in taken.records] == [0, 1, 2]


def test_one_that_blocks_delays_neither_the_stream_nor_the_others(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_consumer, "CLOSE_WITHIN_S", 0.1)
    session, taken, gate = Session(), Taken(), threading.Event()
    outlets = [
        RecordConsumer("a wall", lambda _: bool(gate.wait(60)), said.append),
        RecordConsumer("a list", taken, said.append),
    ]
    began_s = time.monotonic()
    with monitor_with(session, outlets, said.append) as add:  # type: ignore[arg-type]
        for batch_id in range(2 * record_consumer.MOST_WAITING):
            add(beat(batch_id))
            session.hears(engine(batch_id))
            if batch_id % 100 == 0:
                wait_for(lambda: len(taken.records) > batch_id)  # noqa: B023 - called at once
        wait_for(lambda: len(taken.records) == 2 * record_consumer.MOST_WAITING)
    assert time.monotonic() - began_s < 5
    assert said == ["a wall was too slow: it lacks micro-batches, the tables have them all"]
    gate.set()


def test_one_that_raises_is_said_once_and_tried_again(said: list[str]) -> None:
    session, taken = Session(), Taken()
    others = Taken()

    def fails_until_the_third(one: Record) -> None:
        if one["batch_id"] < 3:
            msg = "no space left\nand much more"
            raise OSError(msg)
        taken(one)

    outlets = [
        RecordConsumer("a full disk", fails_until_the_third, said.append),
        RecordConsumer("a list", others, said.append),
    ]
    with monitor_with(session, outlets, said.append) as add:  # type: ignore[arg-type]
        for batch_id in range(5):
            add(beat(batch_id))
            session.hears(engine(batch_id))
    assert [one["batch_id"] for one in taken.records] == [3, 4]
    assert len(others.records) == 5
    assert said == ["a full disk fails (no space left): the stream goes on without"]


def test_what_the_engine_says_in_another_form_is_a_failure_of_the_outlet_alone(said: list[str]) -> None:
    session, taken = Session(), Taken()
    with monitor_with(session, [RecordConsumer("a list", taken, said.append)], said.append) as add:  # type: ignore[arg-type]
        add(beat(0))
        session.hears(SimpleNamespace(name="sessionize", batchId=0))
    assert taken.records == []
    assert "a list fails" in said[0]


def test_the_batch_log_is_a_file_of_json_lines_that_is_rolled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sessionization.monitor.batch_log.MOST_BYTES", 1000)
    log = BatchLog(tmp_path / "batches.log")
    for batch_id in range(100):
        log({"query": "a % sign", "batch_id": batch_id})
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["batches.log", *(f"batches.log.{number}" for number in (1, 2, 3))]
    assert json.loads(files[0].read_text().splitlines()[-1]) == {"query": "a % sign", "batch_id": 99}


def test_the_batch_log_of_a_cluster_is_its_stderr(capfd: pytest.CaptureFixture[str], said: list[str]) -> None:
    with monitor_batches(Session(), None, None, said.append) as add:  # type: ignore[arg-type]
        add(beat(4))
    assert json.loads(capfd.readouterr().err)["batch_id"] == 4


def test_a_batch_log_that_cannot_be_written_is_said(tmp_path: Path, said: list[str]) -> None:
    with monitor_batches(Session(), tmp_path / "nowhere" / "batches.log", None, said.append) as add:  # type: ignore[arg-type]
        add(beat())
    assert len(said) == 1
    assert "No such file or directory" in said[0]
