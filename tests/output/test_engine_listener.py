"""The engine's reports as listeners get them."""

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from sessionization.spark.output.engine_listener import EngineListener, parse_report

DEADLINE_S = 60


class Reports(EngineListener):
    def __init__(self) -> None:
        self.received: list[StreamingQueryProgress] = []

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.received.append(event.progress)


def values(report: StreamingQueryProgress) -> tuple[object, ...]:
    sources = [(source.description, source.endOffset, source.latestOffset) for source in report.sources]
    return report.id, report.name, report.timestamp, report.batchId, report.numInputRows, report.durationMs, sources


@pytest.mark.spark
def test_a_listener_gets_the_reports_that_the_query_has(spark: SparkSession, tmp_path: Path) -> None:
    listener = Reports()
    spark.streams.addListener(listener)
    try:
        rows = spark.readStream.format("rate").load()
        writer = rows.writeStream.foreachBatch(lambda batch, _batch_id: batch.collect()).queryName("reported")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="100 milliseconds").start()
        deadline_s = time.monotonic() + DEADLINE_S
        while not any(report.numInputRows for report in listener.received) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        query.stop()
        expected = {report.batchId: values(report) for report in query.recentProgress if report.numInputRows}
    finally:
        spark.streams.removeListener(listener)
    received = {report.batchId: values(report) for report in listener.received if report.numInputRows}
    assert received
    assert received == {batch_id: expected[batch_id] for batch_id in received}


@pytest.mark.parametrize("is_older", [False, True], ids=["4.2", "the PySpark of Databricks Runtime 18.0"])
def test_offsets_are_json_and_a_rate_that_the_engine_omits_is_0(
    monkeypatch: pytest.MonkeyPatch, *, is_older: bool
) -> None:
    if is_older:
        monkeypatch.setattr(SourceProgress, "fromJson", lambda source: SimpleNamespace(**_with_texts(source)))
    source = {"description": "a", "startOffset": None, "endOffset": {"a": 1}, "latestOffset": "2", "numInputRows": 3}
    report = {
        "id": "7e5b3a4c-0000-0000-0000-000000000000",
        "runId": "7e5b3a4c-0000-0000-0000-000000000001",
        "name": "sessionize",
        "timestamp": "2025-11-21T12:00:00.123Z",
        "batchId": 4,
        "batchDuration": 5,
        "durationMs": {"addBatch": 5},
        "stateOperators": [],
        "sources": [source],
        "sink": {"description": "b", "numOutputRows": -1},
        "numInputRows": 3,
    }
    parsed = parse_report(json.dumps(report))
    assert (parsed.processedRowsPerSecond, parsed.sources[0].inputRowsPerSecond) == (0, 0)
    assert (parsed.sources[0].endOffset, parsed.sources[0].latestOffset) == ('{"a": 1}', "2")


def _with_texts(source: dict[str, Any]) -> dict[str, Any]:
    return source | {name: str(value) for name, value in source.items() if name.endswith("Offset")}
