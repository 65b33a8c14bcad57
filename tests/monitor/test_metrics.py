"""The metrics for Prometheus: their values, and that their readers never affect the stream."""

import math
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sessionization.errors import ConfigurationError
from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.monitor import prometheus
from sessionization.monitor.batch_monitor import check_metrics_package, monitor_batches
from sessionization.monitor.batch_record import batch_record
from sessionization.monitor.delay_histogram import BOUNDS_S, DelayHistogram
from sessionization.monitor.metrics import METRICS, PREFIX, Metrics
from sessionization.monitor.prometheus import serve_metrics
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.output.progress import SAMPLE_SIZE, BatchDetail, BatchProgress, DelaySample
from tests.support.monitored import (
    AT_MS,
    KAFKA,
    Session,
    engine,
    get,
    one_of_each_query,
    query_progress,
    sessionize_progress,
)


@pytest.fixture
def lines() -> list[str]:
    return []


def metrics_of(*progress: BatchProgress) -> dict[str, float]:
    metrics = Metrics(30_000)
    for batch in progress:
        report = engine(**KAFKA) if batch.query == "sessionize" else None
        metrics(batch_record(batch, report), batch.detail)
    with serve_metrics("127.0.0.1", 0, metrics) as port:
        return values_of(get(port))


def values_of(text: str) -> dict[str, float]:
    """Returns the samples by name and labels, as Prometheus's own parser reads them, and checks the descriptions."""
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        assert family.type in {"counter", "gauge", "histogram"}
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}" if labels else sample.name
            assert key not in values
            values[key] = sample.value
    return values


def test_the_important_signals_are_metrics() -> None:
    rollup = query_progress("rollup", detail=BatchDetail(live=41, write_ms=10))
    values = metrics_of(sessionize_progress(), rollup, query_progress("archive", quarantined=2))
    committed_s = (AT_MS + 500) / 1000
    assert (
        values.items()
        >= {
            "sessionization_heartbeat_interval_seconds": 30,
            "sessionization_live_sessions": 41,
            'sessionization_ended_total{reason="timed_out"}': 1,
            'sessionization_ended_total{reason="orphaned"}': 1,
            "sessionization_state_rows": 70,
            "sessionization_state_bytes": 4096,
            "sessionization_state_commit_seconds": 0.033,
            "sessionization_partition_skew_ratio": 3.0,
            'sessionization_phase_seconds{phase="walCommit",query="sessionize"}': 0.02,
            'sessionization_batch_seconds_count{query="rollup"}': 1,
            'sessionization_batch_seconds_bucket{le="0.25",query="sessionize"}': 0,
            'sessionization_batch_seconds_bucket{le="0.5",query="sessionize"}': 1,
            'sessionization_write_seconds_sum{query="rollup"}': 0.01,
            "sessionization_last_heartbeat_timestamp_seconds": committed_s,
            "sessionization_messages_total": 8,
            "sessionization_quarantined_total": 2,
        }.items()
    )
    assert values["sessionization_events_total"] == 7


def test_counters_add_up_and_gauges_do_not() -> None:
    values = metrics_of(sessionize_progress(0), sessionize_progress(1))
    assert values["sessionization_heartbeats_total"] == 10
    assert values['sessionization_ended_total{reason="reported"}'] == 4
    assert values["sessionization_state_rows"] == 70


def test_the_delays_of_micro_batches_add_up_in_one_histogram() -> None:
    batches = [
        sessionize_progress(0, detail=BatchDetail(lateness=DelaySample(5, (50, 50, 100, 1_100, 40_000)))),
        sessionize_progress(1, detail=BatchDetail(lateness=DelaySample(400, (1_400, 61_000)))),
    ]
    values = metrics_of(*batches)
    name = "sessionization_heartbeat_lateness_seconds"
    buckets = {key: value for key, value in values.items() if key.startswith(f"{name}_bucket")}
    assert [float(re.findall(r'"(.+)"', key)[0]) for key in buckets] == [*BOUNDS_S, math.inf]
    at_most = dict(zip([*BOUNDS_S, math.inf], buckets.values(), strict=True))
    expected = {0.1: 3, 0.25: 3, 1: 3, 1.5: 204, 30: 204, 60: 205, 120: 405, 3600: 405, math.inf: 405}
    assert {bound: at_most[bound] for bound in expected} == expected
    assert values[f"{name}_count"] == 405
    assert values[f"{name}_sum"] == pytest.approx(41.3 + 400 * 31.2)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 199, 200])
def test_a_histogram_of_few_rows_counts_each(rows: int) -> None:
    at_most_s = [BOUNDS_S[row % len(BOUNDS_S)] for row in range(rows)]
    spread = [sorted(at_most_s)[int((point + 0.5) * rows / SAMPLE_SIZE)] for point in range(SAMPLE_SIZE)]
    histogram = DelayHistogram()
    histogram.add(DelaySample(rows, tuple(round(bound_s * 1000) for bound_s in spread)))
    assert histogram.at_most == [*(sum(s <= bound_s for s in at_most_s) for bound_s in BOUNDS_S), rows]


@pytest.mark.parametrize("rows", [1, 199, 201, 12_345])
def test_a_histogram_rises_to_the_number_of_rows_and_adds_samples_up(rows: int) -> None:
    samples = [DelaySample(rows, tuple(range(step, 400 * step, 2 * step))) for step in (1, 70, 9_000)]
    together = DelayHistogram()
    alone = []
    for sample in samples:
        together.add(sample)
        histogram = DelayHistogram()
        histogram.add(sample)
        alone.append(histogram)
        assert histogram.at_most == sorted(histogram.at_most)
        assert histogram.at_most[-1] == rows
        assert histogram.sum_s == pytest.approx(sum(sample.delays_ms) * rows / len(sample.delays_ms) / 1000)
    assert together.at_most == [sum(counts) for counts in zip(*(one.at_most for one in alone), strict=True)]
    assert together.sum_s == pytest.approx(sum(one.sum_s for one in alone))


def test_counters_and_histograms_begin_at_zero() -> None:
    """Prometheus sees no increase in a first value, so what a first micro-batch counts would be lost."""
    with serve_metrics("127.0.0.1", 0, Metrics(30_000)) as port:
        values = values_of(get(port))
    assert values.pop("sessionization_heartbeat_interval_seconds") == 30
    assert set(values.values()) == {0}
    assert {key.partition("{")[0] for key in values} >= {
        f"{PREFIX}{name}" for name, (kind, _) in METRICS.items() if kind == "counter"
    }


def test_every_metric_is_served_under_its_name() -> None:
    values = metrics_of(*one_of_each_query())
    names = {re.sub(r"_(bucket|sum|count)$", "", key.partition("{")[0]) for key in values}
    assert names == {f"{PREFIX}{name}" for name in METRICS}


def test_the_port_answers_only_at_its_address() -> None:
    settings = SessionizeSettings(input="in", warehouse="w", checkpoints="c", metrics_port=9464)
    assert settings.metrics_at == ("127.0.0.1", 9464)
    with serve_metrics("127.0.0.1", 0, Metrics(30_000)) as port:
        assert "# " in get(port) or not get(port)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=5).close()
    with serve_metrics("0.0.0.0", 0, Metrics(30_000)) as port:
        socket.create_connection(("127.0.0.2", port), timeout=5).close()


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n"])
def test_a_stuck_client_is_disconnected_and_delays_no_other_client(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    assert prometheus._Handler.timeout, "what the library leaves open"
    monkeypatch.setattr(prometheus._Handler, "timeout", 0.5)
    metrics = Metrics(30_000)
    metrics(batch_record(sessionize_progress(), engine()), BatchDetail())
    with (
        serve_metrics("127.0.0.1", 0, metrics) as port,
        socket.create_connection(("127.0.0.1", port), timeout=5) as stuck,
    ):
        stuck.sendall(sent)
        assert values_of(get(port))
        assert stuck.recv(1) == b"", "its thread would wait for ever"


def test_a_slow_collection_does_not_delay_the_next_record() -> None:
    metrics = Metrics(30_000)
    metrics(batch_record(sessionize_progress(), engine()), BatchDetail())
    figures = prometheus._Figures(metrics).collect()
    next(figures)
    adding = threading.Thread(
        target=metrics, args=(batch_record(sessionize_progress(1), engine(1)), BatchDetail()), daemon=True
    )
    adding.start()
    adding.join(5)
    assert not adding.is_alive()


def test_without_the_library_metrics_are_refused_before_anything_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    check_metrics_package(None)
    folders = {"input": tmp_path, "warehouse": tmp_path / "warehouse", "checkpoints": tmp_path / "checkpoints"}
    settings = SessionizeSettings(**folders, metrics_port=9464)
    with pytest.raises(ConfigurationError, match=r"--metrics-port needs .*WHEEL\.whl\[metrics\]'") as error:
        run(settings, threading.Event(), JobCallbacks(lines.append))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "checkpoints").exists()
    assert lines == []


def test_the_library_is_not_needed_without_metrics() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; import sessionization.job.sessionize_job"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_port_in_use_is_reported_and_the_stream_goes_on(tmp_path: Path, lines: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        log, at = tmp_path / "batches.log", ("127.0.0.1", port)
        with monitor_batches(Session(), log, at, 30_000, lines.append) as add:  # type: ignore[arg-type]
            add(sessionize_progress())
    assert lines == [
        f"--metrics-port {port} of 127.0.0.1 cannot be served (Address already in use): the stream goes on without"
    ]
    assert len((tmp_path / "batches.log").read_text().splitlines()) == 1
