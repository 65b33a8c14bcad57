"""Metrics on a port, in the forms that Prometheus asks for: by its own client library, the extra `metrics`."""

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
_CLIENT_S = 5


class _Figures(Collector):
    """What is collected when somebody asks: the figures as they are then."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[_Family]:
        for name, values in self._metrics.values().items():
            kind, about = METRICS[name]
            family = _FAMILIES[kind](PREFIX + name, about, labels=[label for label, _ in next(iter(values))])
            for labels, value in values.items():
                family.add_metric([text for _, text in labels], value)
            yield family


class _Handler(MetricsHandler):
    """Lets go of a client that says and takes nothing: without this its thread would wait for it for ever."""

    timeout = _CLIENT_S


class _Server(socketserver.ThreadingTCPServer):
    """Each client has a thread of its own. The library's own server would look up this machine's name first."""

    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle asks again."""


@contextlib.contextmanager
def serve_metrics(host: str, port: int, metrics: Metrics) -> Iterator[int]:
    """Answer GET /metrics with the figures at this address, on threads of their own; gives the port.

    Raises `OSError` where the port is taken, or the address is not this machine's. Port 0 takes one that is free.
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
