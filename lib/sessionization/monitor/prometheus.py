"""Serve the metrics on a port, in Prometheus's formats, by its own client library (the extra `metrics`)."""

import contextlib
import socketserver
import threading
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from sessionization.monitor.delay_histogram import BOUNDS_S
from sessionization.monitor.metrics import METRICS, PREFIX, Labels, Metrics

_FAMILIES: dict[str, type[CounterMetricFamily | GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}
_CLIENT_TIMEOUT_S = 5
_LE = [*(str(float(bound_s)) for bound_s in BOUNDS_S), "+Inf"]
"""The buckets' label `le`."""


class _Figures(Collector):
    """Collects the values of the metrics at the moment of a request."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        for name, values in self._metrics.values().items():
            kind, description = METRICS[name]
            family = _FAMILIES[kind](PREFIX + name, description, labels=_label_names(values))
            for labels, value in values.items():
                family.add_metric([text for _, text in labels], value)
            yield family
        for name, histograms in self._metrics.histograms().items():
            _, description = METRICS[name]
            histogram_family = HistogramMetricFamily(PREFIX + name, description, labels=_label_names(histograms))
            for labels, histogram in histograms.items():
                buckets = list(zip(_LE, histogram.at_most, strict=True))
                histogram_family.add_metric([text for _, text in labels], buckets, histogram.sum_s)
            yield histogram_family


def _label_names(by_labels: Iterable[Labels]) -> list[str]:
    return [label for label, _ in next(iter(by_labels))]


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
