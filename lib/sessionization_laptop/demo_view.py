"""The demo's live view: what the running job has just written, readable at 80 columns and without the docs."""

import io
import re
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
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
from sessionization.spark.checkpoint.folder import ROLLUP, SESSIONIZE
from sessionization.spark.output.progress import BatchProgress

WIDTH = 80
_ENDS_SHOWN = 5
_REASONS_SHOWN = 4
_BATCHES_SHOWN = 20
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


def _how_it_ended(row: Row) -> str:
    reason = EndReason(row.end_reason)
    return f"corrected: {reason}" if row.revision else HOW_IT_ENDED[reason]


@dataclass
class DemoView:
    """The view of a running job, fed by its micro-batches and by the rows that they have written."""

    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The instant from which rows are shown."""
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    is_behind: threading.Event = field(default_factory=threading.Event)
    """Set when there are rows in the tables that the view may lack."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._totals = RunningTotals()
        self._live: dict[tuple[str, int], str] = {}
        self._ended: list[Row] = []
        self._refused: Sequence[tuple[str, int]] = ()
        self._lateness_ms: deque[int] = deque(maxlen=_BATCHES_SHOWN)

    def add(self, progress: BatchProgress) -> None:
        """Count a micro-batch, and note that the view may lack its rows."""
        self._totals.add(progress)
        if progress.query == SESSIONIZE and progress.lateness.p99_ms is not None:
            with self._lock:
                self._lateness_ms.append(progress.lateness.p99_ms)
        if progress.query != ROLLUP:
            self.is_behind.set()

    def count_refused(self) -> int:
        """How many messages the job has refused."""
        return self._totals.snapshot()[0]["quarantined"]

    def show(self, changes: Iterable[Row], refused: Sequence[tuple[str, int]]) -> None:
        """Take new rows of `session_changes`, oldest first, and how many messages were refused, by reason.

        A session is live from its first row until its end.
        """
        with self._lock:
            self._refused = refused
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

    def picture(self) -> str:
        """The view without notes as an SVG image, without fonts from elsewhere."""
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(self._tables())
        return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)

    def __rich__(self) -> Group:
        return Group(self._tables(), *(Text(note, style="dim") for note in self.notes))

    def _tables(self) -> Group:
        title, stop = "gaming sessionization", "Ctrl-C stops it"
        with self._lock:
            now = Panel(self._now(), title=title, subtitle=stop, title_align="left")
            return Group(now, self._last_ends(), self._refusals())

    def _now(self) -> Table:
        live, lateness_ms, (totals, _) = Counter(self._live.values()), list(self._lateness_ms), self._totals.snapshot()
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column()
        shares = {name: "█" * round(_BAR_WIDTH * live[name] / max(live.total(), 1)) for name in Platform}
        by_platform = "   ".join(f"{name} {live[name]:>5,} {bar:{_BAR_WIDTH}}" for name, bar in shares.items())
        rows.add_row("sessions live", Text.assemble((f"{live.total():<6,}", "bold"), by_platform))
        rows.add_row("so far", f"{totals['started']:,} started, {totals['ended']:,} ended")
        late = f", p99 late by {lateness_ms[-1] / 1000:.1f} s" if lateness_ms else ", none was due yet"
        rows.add_row("heartbeats", f"{totals['heartbeats']:,} written{late}")
        rows.add_row("lateness", f"{sparkline(lateness_ms)}  (a bar per micro-batch)")
        rows.add_row("messages", f"{totals['events']:,} valid ones read, {totals['repeated']:,} of them repeats")
        return rows

    def _last_ends(self) -> Table:
        table = Table(
            title="Sessions that ended: the last one of each kind, and others",
            title_justify="left",
            title_style="bold",
            box=SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for name in ("at", "platform", "device", "lasted", "how it ended"):
            table.add_column(name, no_wrap=True)
        for row in reversed(self._ended):
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
