"""Serve the metrics on a port, in Prometheus's formats, by its own client library (the extra `metrics`)."""

import contextlib
import socketserver
import threading
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from sessionization.monitor.metrics import METRICS, PREFIX, Metrics

_Family = CounterMetricFamily | GaugeMetricFamily

_FAMILIES: dict[str, type[_Family]] = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}
_CLIENT_TIMEOUT_S = 5


class _Figures(Collector):
    """Collects the values of the metrics at the moment of a request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[_Family]:
        for name, values in self._metrics.values().items():
            kind, description = METRICS[name]
            family = _FAMILIES[kind](PREFIX + name, description, labels=[label for label, _ in next(iter(values))])
            for labels, value in values.items():
                family.add_metric([text for _, text in labels], value)
            yield family


class _Handler(MetricsHandler):
    """Drops a client that neither sends nor reads: without the timeout its thread would wait for ever."""

    timeout = _CLIENT_TIMEOUT_S


class _Server(socketserver.ThreadingTCPServer):
    """Serves each client on its own thread. The library's own server would look up this machine's name first."""

    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Do nothing: a client that disconnects early asks again."""


@contextlib.contextmanager
def serve_metrics(host: str, port: int, metrics: Metrics) -> Iterator[int]:
    """Answer GET /metrics at this address, on separate threads; gives the port.

    Raises `OSError` where the port is taken, or the address does not belong to this machine. Port 0 takes a free port.
    """
    registry = CollectorRegistry()
    registry.register(_Figures(metrics))
    with _Server((host, port), _Handler.factory(registry)) as server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
