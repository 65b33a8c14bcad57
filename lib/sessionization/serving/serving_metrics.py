"""Figures of the job for Prometheus, by its own client library (the extra `metrics`)."""

import contextlib
from collections.abc import Callable, Iterator

from sessionization.clock import wall_clock_ms
from sessionization.say import Say
from sessionization.serving.serving_settings import ServingSettings

PREFIX = "sessionization_serving_"
METRICS = {
    "changes_total": "Sessions written since this start, each time that one changed",
    "newest_change_timestamp_seconds": "When the newest change was processed that is in Postgres",
    "write_timestamp_seconds": "When Postgres took a micro-batch last",
    "latency_seconds": "Micro-batches by the time from their newest change's clock to its row in Postgres",
    "waiting": "1 while Postgres takes nothing and the job waits, else 0",
}
"""All metrics without `PREFIX`, with their descriptions."""
_BOUNDS_S = (0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300)

Note = Callable[[int, int | None], None]
"""Takes how many sessions a micro-batch wrote, and when its newest change was processed."""


@contextlib.contextmanager
def serve_metrics(settings: ServingSettings, is_waiting: Callable[[], bool], say: Say) -> Iterator[Note]:
    """Serve the metrics while the body runs, where the settings name a port; gives what to call for a micro-batch."""
    if settings.metrics_port is None:
        yield lambda _written, _newest_ms: None
        return
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

    from sessionization.job.metrics import serve_registry

    registry = CollectorRegistry()
    changes = Counter(PREFIX + "changes_total", METRICS["changes_total"], registry=registry)
    latency = Histogram(PREFIX + "latency_seconds", METRICS["latency_seconds"], buckets=_BOUNDS_S, registry=registry)
    newest, written, waiting = (
        Gauge(PREFIX + name, METRICS[name], registry=registry)
        for name in ("newest_change_timestamp_seconds", "write_timestamp_seconds", "waiting")
    )
    waiting.set_function(lambda: float(is_waiting()))

    def note(sessions: int, newest_ms: int | None) -> None:
        written.set_to_current_time()
        changes.inc(sessions)
        if newest_ms is not None:
            newest.set(newest_ms / 1000)
            latency.observe(max(0, wall_clock_ms() - newest_ms) / 1000)

    with serve_registry(registry, settings.metrics_host, settings.metrics_port, say):
        yield note
