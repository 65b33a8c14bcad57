"""The demo's live view: what the running job has just written, readable at 80 columns and without the docs."""

import io
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import Row
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sessionization.core.events import ChangeKind, EndReason, Platform
from sessionization.job.summary import RunningTotals
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress

WIDTH = 80
_ENDS_SHOWN = 5
_REASONS_SHOWN = 4
_BATCHES_SHOWN = 20
_RATE_WINDOW_S = 30.0
_BAR_WIDTH = 12
_DEVICE_WIDTH = 12
_BARS = "▁▂▃▄▅▆▇█"
HOW_IT_ENDED = {
    EndReason.REPORTED: "reported by the device",
    EndReason.SUPERSEDED: "superseded by the next session",
    EndReason.TIMED_OUT: "timed out: the device went silent",
    EndReason.ORPHANED: "orphaned: its start never came",
}


def sparkline(values: Sequence[float]) -> str:
    """One bar per value; the highest value has the highest bar, and 0 the lowest."""
    highest = max(values, default=0)
    return "".join(_BARS[int((len(_BARS) - 1) * value / highest)] if highest else _BARS[0] for value in values)


@dataclass(frozen=True, slots=True)
class _Rates:
    """When a micro-batch was done, in seconds of the monotonic clock, and the run's starts and ends until then."""

    at_s: float
    started: int
    ended: int


def _how_it_ended(row: Row) -> str:
    reason = EndReason(row.end_reason)
    return f"corrected: {reason}" if row.revision else HOW_IT_ENDED[reason]


@dataclass
class DemoView:
    """The view of a running job, fed by its micro-batches and by the changes that they have written."""

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The instant from which rows are shown."""
    steady_s: Callable[[], float] = time.monotonic
    totals: RunningTotals = field(default_factory=RunningTotals)
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    is_behind: threading.Event = field(default_factory=threading.Event)
    """Set when there are rows in the tables that the view may lack."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[tuple[str, int], str] = {}
        self._ended: list[Row] = []
        self._refused: Sequence[tuple[str, int]] = ()
        self._refused_when_shown = 0
        self._lateness_ms: deque[int] = deque(maxlen=_BATCHES_SHOWN)
        self._rates: deque[_Rates] = deque([_Rates(self.steady_s(), 0, 0)])

    def add(self, progress: BatchProgress) -> None:
        """Count a micro-batch, and note that the view may lack its rows."""
        self.totals.add(progress)
        if progress.query == SESSIONIZE:
            totals, _ = self.totals.snapshot()
            with self._lock:
                self._rates.append(_Rates(self.steady_s(), totals.started, totals.ended))
                while self._rates[1].at_s <= self._rates[-1].at_s - _RATE_WINDOW_S:
                    self._rates.popleft()
                if progress.lateness.p99_ms is not None:
                    self._lateness_ms.append(progress.lateness.p99_ms)
        if progress.query == SESSIONIZE or self.lacks_refusals():
            self.is_behind.set()

    def show_changes(self, changes: Iterable[Row]) -> None:
        """Take new rows of `session_changes`, oldest first: a session is live from its first row until its end."""
        with self._lock:
            for change in changes:
                key = (change.device_id, change.session_id)
                if change.change == ChangeKind.ENDED:
                    self._live.pop(key, None)
                    self._take_end(change)
                else:
                    self._live[key] = change.platform

    def _take_end(self, row: Row) -> None:
        """Keep an end in place of the oldest that is not the newest of its kind, because most ends are reported."""
        self._ended.append(row)
        if len(self._ended) > _ENDS_SHOWN:
            kinds = [_how_it_ended(end) for end in self._ended]
            replaced = (place for place, kind in enumerate(kinds) if kind in kinds[place + 1 :])
            del self._ended[next(replaced, 0)]

    def show_refused(self, messages_by_reason: Sequence[tuple[str, int]]) -> None:
        """Take the number of messages in `quarantine` by reason, the most frequent first."""
        self._refused_when_shown = self.totals.snapshot()[0].quarantined
        self._refused = messages_by_reason

    def lacks_refusals(self) -> bool:
        """Whether messages were refused since the view got the reasons."""
        totals, _ = self.totals.snapshot()
        return totals.quarantined > self._refused_when_shown

    def line(self) -> str:
        """The view in one line, for an output that is no terminal."""
        live, (starts, ends), lateness_ms = self._snapshot()
        platforms = ", ".join(f"{platform} {live[platform]:,}" for platform in Platform)
        late = f"{lateness_ms[-1] / 1000:.1f} s late" if lateness_ms else "none yet"
        totals, _ = self.totals.snapshot()
        return (
            f"live {live.total():,} ({platforms}), {starts:.1f} starts/s, {ends:.1f} ends/s, heartbeats: {late}, "
            f"refused: {totals.quarantined:,}"
        )

    def picture(self) -> str:
        """The view without notes as an SVG image, without fonts from elsewhere."""
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(self._tables())
        return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)

    def __rich__(self) -> Group:
        return Group(self._tables(), *(Text(note, style="dim") for note in self.notes))

    def _tables(self) -> Group:
        title, stop = "gaming sessionization", "Ctrl-C stops it"
        return Group(
            Panel(self._now(), title=title, subtitle=stop, title_align="left"), self._last_ends(), self._refusals()
        )

    def _snapshot(self) -> tuple[Counter[str], tuple[float, float], list[int]]:
        """Live sessions by platform, starts and ends a second, and the p99 of lateness of the last micro-batches."""
        with self._lock:
            first, last = self._rates[0], self._rates[-1]
            seconds = max(last.at_s - first.at_s, 1)
            rates = (last.started - first.started) / seconds, (last.ended - first.ended) / seconds
            return Counter(self._live.values()), rates, list(self._lateness_ms)

    def _now(self) -> Table:
        live, (starts, ends), lateness_ms = self._snapshot()
        totals, _ = self.totals.snapshot()
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column()
        shares = {name: "█" * round(_BAR_WIDTH * live[name] / max(live.total(), 1)) for name in Platform}
        by_platform = "   ".join(f"{name} {live[name]:>5,} {bar:{_BAR_WIDTH}}" for name, bar in shares.items())
        rows.add_row("sessions live", Text.assemble((f"{live.total():<6,}", "bold"), by_platform))
        rows.add_row("a second", f"{starts:.1f} starts, {ends:.1f} ends")
        bars = sparkline(lateness_ms)
        late = f", p99 late by {lateness_ms[-1] / 1000:.1f} s" if lateness_ms else ", none was due yet"
        rows.add_row("heartbeats", f"{totals.heartbeats:,} written{late}")
        rows.add_row("lateness", f"{bars}  (a bar per micro-batch)")
        rows.add_row("messages", f"{totals.events:,} valid ones read, {totals.repeated:,} of them repeats")
        return rows

    def _last_ends(self) -> Table:
        with self._lock:
            ended = list(self._ended)
        table = Table(
            title="Sessions that ended: the last one of each kind, and others",
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for name in ("at", "platform", "device", "lasted"):
            table.add_column(name, no_wrap=True)
        table.add_column("how it ended", no_wrap=True)
        for row in reversed(ended):
            lasted = "?" if row.duration_ms is None else f"{row.duration_ms / 1000:,.0f} s"
            device = row.device_id[:_DEVICE_WIDTH]
            table.add_row(f"{row.processed_at:%H:%M:%S}", row.platform, Text(device), lasted, _how_it_ended(row))
        return table

    def _refusals(self) -> Text:
        refused = self._refused
        if not refused:
            return Text("No message was refused so far.", style="dim")
        more = len(refused) - _REASONS_SHOWN
        listed = ", ".join(f"{reason} {count:,}" for reason, count in refused[:_REASONS_SHOWN])
        others = f", {more} more reasons" if more > 0 else ""
        count = sum(count for _, count in refused)
        return Text.assemble((f"{count:,} messages refused", "bold"), f", kept in quarantine: {listed}{others}")
