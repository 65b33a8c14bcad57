"""The row that every query adds to `stream_progress` for every micro-batch."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

_log = logging.getLogger(__name__)

_PERCENTAGES = (0.5, 0.99, 1.0)
_ACCURACY = 10_000
ADDED_COLUMNS = ("skipped", "activities", "duplicate_activity", "late_activity", "resumed", "implied_starts")
_NO_COLUMNS = ("ends", "live", "rows_out", "write_ms", "newest_ms")


@dataclass(frozen=True, slots=True)
class Percentiles:
    """p50, p99 and the maximum of a delay in milliseconds; None where there was nothing to measure."""

    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One micro-batch of one query, named as in `stream_progress`; None where the query does not fill a column.

    The last five are no columns: metrics and pace need them. `ends` counts the ends by reason, and `live` the live
    sessions after the micro-batch. `rows_out` counts the operator's rows. The write to the tables took `write_ms`.
    `newest_ms` is the newest instant in the input.
    """

    query: str
    batch_id: int
    processed_ms: int
    rows_in: int
    batch_ms: int
    latency: Percentiles
    lateness: Percentiles = Percentiles(None, None, None)
    started: int | None = None
    heartbeats: int | None = None
    ended: int | None = None
    duplicate_start: int | None = None
    duplicate_end: int | None = None
    evicted: int | None = None
    quarantined: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    state_entries: int | None = None
    reused_ids: int | None = None
    late_starts: int | None = None
    skipped: int | None = None
    activities: int | None = None
    duplicate_activity: int | None = None
    late_activity: int | None = None
    resumed: int | None = None
    implied_starts: int | None = None
    ends: Mapping[str, int] | None = None
    live: int | None = None
    rows_out: int | None = None
    write_ms: int | None = None
    newest_ms: int | None = None

    def row(self) -> dict[str, Any]:
        """The columns of `stream_progress` by name, in JSON types, with `processed_ms` instead of `processed_at`."""
        values = {name: value for name, value in asdict(self).items() if name not in _NO_COLUMNS}
        for name in ADDED_COLUMNS:  # the table has them with some maps
            if values[name] is None:
                del values[name]
        for name in ("latency", "lateness"):
            values |= {f"{name}_{key}": value for key, value in values.pop(name).items()}
        return values


BatchListener = Callable[[BatchProgress], None]
"""Called after every micro-batch, on the thread of its query: it must not block. Its errors are logged."""


def notify_listeners(listeners: Iterable[BatchListener], progress: BatchProgress) -> None:
    """Pass a written micro-batch to every listener. No failure of a listener reaches the query."""
    for listener in listeners:
        try:
            listener(progress)
        except Exception:  # noqa: BLE001 - a listener must not end the query
            _log.exception("micro-batch %s of %s is written, but a listener failed", progress.batch_id, progress.query)


def last_engine_progress(query: StreamingQuery | None) -> StreamingQueryProgress | None:
    """The engine's last report on a query; None before its first micro-batch.

    Also None after the clock was set back: the engine then omits a rate, and PySpark cannot parse the report.
    """
    try:
        return None if query is None else query.lastProgress
    except LookupError:
        return None


def delay_instants(since_ms: str) -> str:
    """SQL of an aggregate, for `delay_percentiles`: the instants at which the median, p99 and longest delay began.

    `since_ms` is SQL of an instant in milliseconds.
    """
    shares = ", ".join(f"{1 - share!r}D" for share in _PERCENTAGES)
    return f"percentile_approx({since_ms}, array({shares}), {_ACCURACY})"


def delay_percentiles(instants_ms: list[int] | None, committed_ms: int) -> Percentiles:
    """The delays up to the commit. All rows share its instant, so the earliest instant gives the longest delay."""
    if not instants_ms:
        return Percentiles(None, None, None)
    return Percentiles(*(max(0, committed_ms - instant_ms) for instant_ms in instants_ms))
