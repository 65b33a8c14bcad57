"""The metrics for Prometheus: their values, also beside real queries, and that readers never affect the stream."""

import math
import re
import socket
import sys
import threading
from pathlib import Path

import pytest

from sessionization.errors import ConfigurationError
from sessionization.job.metrics import BOUNDS_S, COUNTERS, METRICS, PREFIX, Metrics, backlog, serve_metrics
from sessionization.job.sessionize_job import run
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import BatchProgress, Percentiles
from tests.support.monitored import (
    AT_MS,
    Session,
    engine,
    get,
    metrics_of,
    one_of_each_query,
    query_progress,
    served,
    sessionize_progress,
)
from tests.support.settings import settings_of

LATENESS = "sessionization_heartbeat_lateness_seconds"


@pytest.fixture
def lines() -> list[str]:
    return []


def values_of(source: Metrics) -> dict[str, float]:
    """Returns the served samples by name and labels, and checks the descriptions."""
    values: dict[str, float] = {}
    for family in served(source):
        assert family.type in {"counter", "gauge", "histogram"}
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in values
            values[key] = sample.value
    return values


def test_the_important_signals_are_metrics() -> None:
    rollup = query_progress("rollup", live=41, write_ms=10)
    archive = query_progress("archive", quarantined=2)
    values = values_of(metrics_of(sessionize_progress(state_entries=90), rollup, archive))
    committed_s = (AT_MS + 500) / 1000
    assert (
        values.items()
        >= {
            "sessionization_heartbeat_interval_seconds": 30,
            "sessionization_live_sessions": 41,
            'sessionization_ended_total{reason="timed_out"}': 1,
            'sessionization_ended_total{reason="orphaned"}': 1,
            'sessionization_repeated_total{event="start"}': 1,
            "sessionization_state_rows": 70,
            "sessionization_state_entries": 90,
            "sessionization_state_bytes": 4096,
            "sessionization_state_commit_seconds": 0.033,
            'sessionization_phase_seconds{phase="walCommit",query="sessionize"}': 0.02,
            'sessionization_backlog_messages{query="sessionize"}': 5,
            'sessionization_batch_seconds_count{query="rollup"}': 1,
            'sessionization_batch_seconds_bucket{le="0.25",query="sessionize"}': 0,
            'sessionization_batch_seconds_bucket{le="0.5",query="sessionize"}': 1,
            'sessionization_write_seconds_sum{query="rollup"}': 0.01,
            "sessionization_last_heartbeat_timestamp_seconds": committed_s,
            "sessionization_last_message_timestamp_seconds": (AT_MS + 90) / 1000,
            "sessionization_events_total": 7,
            "sessionization_messages_total": 8,
            "sessionization_quarantined_total": 2,
        }.items()
    )


def test_when_something_last_came_stays_while_nothing_comes() -> None:
    idle = BatchProgress("sessionize", 1, AT_MS + 60_000, 0, 10, sessionize_progress().latency)
    values = values_of(metrics_of(sessionize_progress(0), idle))
    assert values['sessionization_last_batch_timestamp_seconds{query="sessionize"}'] == (AT_MS + 60_010) / 1000
    for name in ("heartbeat", "change", "event"):
        assert values[f"sessionization_last_{name}_timestamp_seconds"] == (AT_MS + 500) / 1000


def test_the_delays_of_micro_batches_add_up_in_one_histogram() -> None:
    values = values_of(
        metrics_of(
            *(sessionize_progress(lateness=Percentiles(1, p99_ms, 70_000)) for p99_ms in (50, 100, 1_400, 61_000)),
            sessionize_progress(lateness=Percentiles(None, None, None)),
        )
    )
    buckets = {key: value for key, value in values.items() if key.startswith(f"{LATENESS}_bucket")}
    assert [float(re.findall(r'"(.+)"', key)[0]) for key in buckets] == [*BOUNDS_S, math.inf]
    at_most = dict(zip([*BOUNDS_S, math.inf], buckets.values(), strict=True))
    expected = {0.1: 2, 1: 2, 1.5: 3, 60: 3, 120: 4, math.inf: 4}
    assert {bound: at_most[bound] for bound in expected} == expected
    assert values[f"{LATENESS}_count"] == 4
    assert values[f"{LATENESS}_sum"] == pytest.approx(62.55)


def test_counters_and_histograms_begin_at_zero() -> None:
    """Prometheus sees no increase in a first value, so what a first micro-batch counts would be lost."""
    values = values_of(metrics_of())
    assert values.pop("sessionization_heartbeat_interval_seconds") == 30
    assert set(values.values()) == {0}
    assert {key.partition("{")[0] for key in values} >= {f"{PREFIX}{name}" for name in COUNTERS}
    assert 'sessionization_ended_total{reason="superseded"}' in values
    assert 'sessionization_latency_seconds_count{query="archive"}' in values


def test_every_metric_is_served_under_its_name() -> None:
    values = values_of(metrics_of(*one_of_each_query()))
    names = {re.sub(r"_(bucket|sum|count)$", "", key.partition("{")[0]) for key in values}
    assert names == {f"{PREFIX}{name}" for name in METRICS}


def test_the_backlog_is_what_the_brokers_had_and_was_not_taken() -> None:
    kafka = {
        "description": "KafkaV2[Subscribe[pc_sessions]]",
        "endOffset": {"pc_sessions": {"0": 10, "1": 20}, "console_sessions": {"0": 5}},
        "latestOffset": {"pc_sessions": {"0": 15, "1": 20, "2": 9}, "console_sessions": {"0": 7}},
    }
    assert backlog(engine(**kafka)["sources"]) == 7
    assert backlog(engine()["sources"]) is None


def test_without_the_library_metrics_are_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    folders = {"input": tmp_path, "warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    settings = settings_of(SessionizeSettings, **folders, metrics_port=9464)
    with pytest.raises(ConfigurationError, match=r"--metrics-port needs .* the extra metrics") as error:
        run(settings, threading.Event(), lines.append)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "checkpoints").exists()
    assert lines == []


def test_metrics_are_served_while_the_queries_run(lines: list[str]) -> None:
    session = Session()
    with serve_metrics(session, metrics_of(), "127.0.0.1", 0, lines.append) as listeners:  # type: ignore[arg-type]
        listeners[0](sessionize_progress())
        session.hears(engine(name="somebody_else"))
        session.hears(engine())
        port = int(re.findall(r"on port (\d+) of 127", lines[0])[0])
        text = get(port)
    assert "sessionization_heartbeats_total 5.0\n" in text
    assert "sessionization_state_rows 70.0\n" in text
    assert session.listeners == []


def test_a_port_in_use_is_reported_and_the_stream_goes_on(lines: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with serve_metrics(Session(), metrics_of(), "127.0.0.1", port, lines.append) as listeners:  # type: ignore[arg-type]
            assert listeners == []
    assert len(lines) == 1
    assert lines[0].startswith(f"--metrics-port {port} of 127.0.0.1 cannot be served")
