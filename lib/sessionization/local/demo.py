"""The demo: simulator and job together on this machine, with a live view in the terminal."""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, Row, SparkSession
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.job.summary import Summary, summary_lines
from sessionization.job.totals import RunningTotals
from sessionization.local.broker import Broker
from sessionization.local_engine.class_archive import archive_classes
from sessionization.local_engine.local_session import SHORT_LIVED_JVM_OPTIONS
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import SESSIONIZE
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.tables.views import create_views
from sessionization.streams import STREAMS

SECONDS = 60
_POLL_S = 2.0

_LATEST_CHANGES = """
SELECT date_format(processed_at, 'HH:mm:ss') AS at, platform, device_id, session_id, change, end_reason, beat,
       cast(duration_ms / 1000 AS int) AS seconds
FROM {session_changes}
WHERE change_date >= current_date() - 1 AND processed_at >= current_timestamp() - INTERVAL 5 MINUTES
ORDER BY processed_at DESC, change DESC LIMIT 10
"""

QUERIES = (
    (
        "How did sessions end?",
        "SELECT end_reason, count(*) AS sessions, cast(avg(duration_ms) / 1000 AS int) AS avg_seconds\n"
        "FROM sessions WHERE status = 'ended' GROUP BY end_reason ORDER BY sessions DESC",
    ),
    (
        "Which sessions are live, and when did they last beat?",
        "SELECT platform, device_id, session_id, beat, heartbeat_age_ms\n"
        "FROM live_sessions ORDER BY started_at LIMIT 5",
    ),
    (
        "What was refused, and why?",
        "SELECT reason, count(*) AS messages FROM quarantine GROUP BY reason ORDER BY messages DESC LIMIT 5",
    ),
)


@dataclass
class DemoView:
    """The terminal's view of the running job."""

    totals: RunningTotals = field(default_factory=RunningTotals)
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))
    latest: list[Row] = field(default_factory=list)
    is_behind: threading.Event = field(default_factory=threading.Event)
    """Set when there are changes that `latest` may lack."""

    def add(self, progress: BatchProgress) -> None:
        """Count a micro-batch, and note that `latest` may lack its changes."""
        self.totals.add(progress)
        if progress.query == SESSIONIZE:
            self.is_behind.set()

    def __rich__(self) -> Group:
        totals, last = self.totals.snapshot()
        counts = Table.grid(padding=(0, 3))
        counts.add_row("events in", "started", "heartbeats", "ended", "repeated", "quarantined", style="dim")
        numbers = (totals.events, totals.started, totals.heartbeats, totals.ended, totals.repeated, totals.quarantined)
        counts.add_row(*(f"{number:,}" for number in numbers), style="bold")
        changes = Table(title="latest changes", expand=True, title_justify="left")
        for name in ("at", "platform", "device_id", "session_id", "change", "end_reason", "beat", "seconds"):
            changes.add_column(name, no_wrap=True, overflow="ellipsis")
        for row in self.latest:
            changes.add_row(*(Text("" if value is None else str(value)) for value in row))
        newest = last.get("sessionize")
        lateness = "-" if newest is None or newest.lateness.p99_ms is None else f"{newest.lateness.p99_ms:,} ms"
        return Group(
            Panel(
                counts, title="gaming sessionization", subtitle=f"newest heartbeats in the table {lateness} after due"
            ),
            changes,
            *(Text(note, style="dim") for note in self.notes),
        )


Source = Literal["files", "kafka"]
_TOPIC_PARTITIONS = 2


def demo(folder: Path, simulate: Path, source: Source) -> None:
    """Play an evening into files or a Kafka broker, run the job on it for a minute, and show queries to try.

    `simulate` is the simulator's script. The tables stay in `folder`/warehouse; a second demo continues with them.
    """
    with archive_classes(Console().print), _prepared_source(source, folder) as (sink_options, source_settings):
        _run_demo(folder, [simulate, *sink_options], source_settings)


@contextmanager
def _prepared_source(source: Source, folder: Path) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield the simulator's options and the job's settings for a source; run a broker if the source needs one."""
    if source == "files":
        (folder / "input").mkdir(parents=True, exist_ok=True)
        yield ["--output", str(folder / "input")], {"input": folder / "input"}
        return
    with Broker(folder / "kafka") as broker:
        broker.create_topics(dict.fromkeys(STREAMS, _TOPIC_PARTITIONS))
        servers = broker.bootstrap_servers
        yield ["--sink", "kafka", "--bootstrap-servers", servers], {"source": "kafka", "bootstrap_servers": servers}


def _run_demo(folder: Path, simulator: list[str | Path], source_settings: dict[str, Any]) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{folder.absolute() / 'mlflow.db'}")
    console = Console()
    view = DemoView()
    answers: list[tuple[str, str, list[Row]]] = []
    stop, running = threading.Event(), threading.Event()
    settings = SessionizeSettings(
        **source_settings,
        warehouse=folder / "warehouse",
        checkpoints=folder / "checkpoints",
        heartbeat=10_000,
        run_for=SECONDS * 1_000,
    )

    def say(line: str) -> None:
        view.notes.append(line)
        if not console.is_terminal:
            console.print(line, markup=False)

    def started(spark: SparkSession, location: TableLocation) -> None:
        if console.is_terminal:
            running.set()
            query = _LATEST_CHANGES.format(session_changes=location.sql_name(SESSION_CHANGES.name))
            threading.Thread(target=_refresh, args=(spark, query, view, running), daemon=True).start()

    def stopped(spark: SparkSession, location: TableLocation) -> None:
        running.clear()
        create_views(spark, location)
        answers.extend((question, query, _rows(spark.sql(query))) for question, query in QUERIES)

    evening = ("--live", "300", "--rate", "20", "--duration", f"{SECONDS + 30}s", "--dirt", "0.1")
    simulation = subprocess.Popen([sys.executable, *simulator, *evening], stderr=subprocess.DEVNULL)
    try:
        with Live(view, console=console, refresh_per_second=4, transient=True):
            summary = run(settings, stop, JobCallbacks(say, (view.add,), started, stopped))
    finally:
        simulation.terminate()
        simulation.wait()
    _show(console, settings, summary, answers)


def _refresh(spark: SparkSession, query: str, view: DemoView, running: threading.Event) -> None:
    """Query the newest changes once a micro-batch; more often would take cores from the job."""
    while running.is_set():
        if view.is_behind.wait(_POLL_S):
            view.is_behind.clear()
            view.latest = _rows(spark.sql(query))


def _rows(frame: DataFrame) -> list[Row]:
    return frame.collect()


def _show(
    console: Console, settings: SessionizeSettings, summary: Summary, answers: list[tuple[str, str, list[Row]]]
) -> None:
    for line in summary_lines(summary):
        console.print(line, highlight=False, markup=False)
    for question, query, rows in answers:
        table = Table(title=question, title_justify="left")
        for name in rows[0].asDict() if rows else ("(no rows)",):
            table.add_column(name)
        for row in rows:
            table.add_row(*(Text("" if value is None else str(value)) for value in row))
        console.print()
        console.print(query, style="cyan", highlight=False, markup=False)
        console.print(table)
    console.print(f"\nThe tables are in {settings.warehouse}. Ask your own question:", highlight=False)
    folder = settings.warehouse.parent if settings.warehouse is not None else None
    demo_variable = "" if folder is None or folder.name == ".demo" else f"DEMO={folder} "
    console.print(
        f'  make sql {demo_variable}Q="SELECT * FROM concurrent_sessions ORDER BY minute DESC LIMIT 10"', style="cyan"
    )
