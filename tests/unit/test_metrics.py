"""The metrics for Prometheus: what they say, and that nobody who reads them reaches the stream."""

import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from sessionization.monitor.listener import monitored
from sessionization.monitor.prometheus import Metrics, served
from sessionization.monitor.record import record
from sessionization.spark.progress import Detail, Progress
from tests.unit.monitored import AT_MS, Session, beat, engine, other


@pytest.fixture
def said() -> list[str]:
    return []


def metrics_of(*progress: Progress) -> dict[str, float]:
    metrics = Metrics()
    for one in progress:
        metrics(record(one, engine() if one.query == "sessionize" else None))
    return values_of(metrics.text())


def values_of(text: str) -> dict[str, float]:
    """The samples of the text format by name and labels; every name is described before."""
    described, values = set(), {}
    for line in text.splitlines():
        if line.startswith("#"):
            _, what, name, rest = line.split(" ", 3)
            assert what in {"HELP", "TYPE"}
            assert rest in {"counter", "gauge"} or what == "HELP"
            described.add((what, name))
            continue
        key, value = line.rsplit(" ", 1)
        assert {("HELP", key.partition("{")[0]), ("TYPE", key.partition("{")[0])} <= described
        assert key not in values
        values[key] = float(value)
    return values


def test_the_signals_that_matter_are_metrics() -> None:
    live = other("rollup", detail=Detail(live=41, write_ms=10))
    values = metrics_of(beat(), live, other("archive", quarantined=2))
    done_s = (AT_MS + 500) / 1000
    assert (
        values.items()
        >= {
            'sessionization_heartbeat_lateness_seconds{quantile="0.99"}': 0.2,
            "sessionization_live_sessions": 41,
            'sessionization_ended_total{reason="timed_out"}': 1,
            'sessionization_ended_total{reason="orphaned"}': 1,
            "sessionization_state_rows": 70,
            "sessionization_state_bytes": 4096,
            "sessionization_state_commit_seconds": 0.033,
            "sessionization_partition_skew_ratio": 3.0,
            'sessionization_phase_seconds{query="sessionize",phase="walCommit"}': 0.02,
            'sessionization_write_seconds{query="rollup"}': 0.01,
            'sessionization_latency_seconds{query="sessionize",quantile="0.99"}': 0.06,
            "sessionization_last_heartbeat_timestamp_seconds": done_s,
            "sessionization_messages_total": 8,
            "sessionization_quarantined_total": 2,
        }.items()
    )
    assert values["sessionization_events_total"] == 7


def test_counters_add_up_and_gauges_do_not() -> None:
    values = metrics_of(beat(0), beat(1))
    assert values["sessionization_heartbeats_total"] == 10
    assert values['sessionization_ended_total{reason="reported"}'] == 4
    assert values["sessionization_state_rows"] == 70


def test_prometheus_itself_reads_the_text() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    metrics = Metrics()
    metrics(record(beat(), engine()))
    families = {family.name: family.type for family in parser.text_string_to_metric_families(metrics.text())}
    assert families["sessionization_ended"] == "counter"
    assert families["sessionization_phase_seconds"] == "gauge"
    assert "unknown" not in families.values()


def get(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=3) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def test_the_metrics_are_served_also_while_a_client_says_nothing() -> None:
    with served(0, lambda: "up 1\n") as port, socket.create_connection(("127.0.0.1", port)):
        assert get(port) == "up 1\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(port, "/other")


def test_a_port_that_is_taken_is_said_and_the_stream_goes_on(tmp_path: Path, said: list[str]) -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with monitored(Session(), tmp_path / "batches.log", port, said.append) as add:  # type: ignore[arg-type]
            add(beat())
    assert said == [f"--metrics-port {port} cannot be served (Address already in use): the stream goes on without"]
    assert len((tmp_path / "batches.log").read_text().splitlines()) == 1
