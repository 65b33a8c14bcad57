"""The summary of a run that has stopped."""

from dataclasses import dataclass

from sessionization.job.delays import Delays
from sessionization.job.totals import Totals


@dataclass(frozen=True, slots=True)
class Summary:
    """Duration, totals and delays of a run; `live` is None where the live sessions could not be counted."""

    seconds: float
    totals: Totals
    live: int | None
    delays: Delays


def summary_lines(summary: Summary) -> list[str]:
    """The summary as lines for a person. Two queries read the messages, so one may have read more than the other."""
    totals, delays = summary.totals, summary.delays
    return [
        f"ran {summary.seconds:,.0f} s",
        f"archived         {totals.messages:,} messages, of which quarantined {totals.quarantined:,}",
        f"sessionized      {totals.events:,} events, of which repeated {totals.repeated:,}"
        f" ({totals.duplicate_start:,} Starts, {totals.duplicate_end:,} Ends)",
        f"changes out      {totals.started:,} started, {totals.heartbeats:,} heartbeats, {totals.ended:,} ended"
        " (corrections included)",
        f"live now         {'-' if summary.live is None else f'{summary.live:,}'}",
        f"heartbeat lateness      p50 {_ms(delays.lateness_p50_ms)}, p99 {_ms(delays.lateness_p99_ms)}",
        f"event-to-table latency  p50 {_ms(delays.latency_p50_ms)}, p99 {_ms(delays.latency_p99_ms)}"
        " (the start included)",
    ]


def _ms(value: int | None) -> str:
    return "-" if value is None else f"{value:,} ms"
