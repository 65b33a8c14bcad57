"""The demo: simulator and job together on this machine, with a live view in the terminal."""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col
from rich.console import Console
from rich.live import Live

from sessionization.core.events import ChangeKind
from sessionization.errors import ConfigurationError
from sessionization.files import refuse_unwritable
from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.layout_file import LAYOUT_FILE
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import QUARANTINE, SESSION_CHANGES
from sessionization.spark.tables.schemas import Table as DeltaTable
from sessionization.spark.tables.views import create_views
from sessionization.stop_signals import stop_on_signals
from sessionization.streams import STREAMS
from sessionization_laptop.broker import Broker
from sessionization_laptop.demo_view import DemoView
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from sessionization_laptop.notebook_folders import write_widget_values
from sessionization_laptop.print_query import as_table

SECONDS = 60
_HEARTBEAT = "10s"
_POLL_S = 2.0

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
        "SELECT reason, count(*) AS messages FROM quarantine GROUP BY reason ORDER BY messages DESC",
    ),
)


Source = Literal["files", "kafka"]
_TOPIC_PARTITIONS = 2


def demo(folder: Path, simulate: Path, source: Source, picture: Path | None = None) -> None:
    """Play an evening into files or a Kafka broker, run the job on it for a minute, and show queries to try.

    Ctrl-C or SIGTERM ends it earlier.

    `simulate` is the simulator's script. The tables stay in `folder`/warehouse; a second demo continues with them.
    `picture` is a file for the last live view before the stop, as SVG.

    Raises `ConfigurationError` where `folder` cannot be written, as in a read-only checkout.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_unwritable(folder)
    except OSError as error:
        msg = f"--folder {folder} cannot be written ({error.strerror}): give another (make: DEMO=FOLDER)"
        raise ConfigurationError(msg) from error
    with _prepared_source(source, folder) as (sink_options, source_settings):
        _run_demo(folder, [simulate, *sink_options], source_settings, picture)


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
        yield ["--sink", "kafka", "--bootstrap-servers", servers], {"type": "kafka", "bootstrap_servers": servers}


def _run_demo(folder: Path, simulator: list[str | Path], source_settings: dict[str, Any], picture: Path | None) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{folder.absolute() / 'mlflow.db'}")
    console, view = Console(), DemoView()
    answers: list[tuple[str, str, list[Row]]] = []
    running = threading.Event()
    refresher: list[threading.Thread] = []
    settings = SessionizeSettings.model_validate(
        {
            "source": source_settings,
            "tables": {"warehouse": folder / "warehouse"},
            "rules": {"heartbeat": _HEARTBEAT},
            "state": {"checkpoints": folder / "checkpoints"},
            "run_for": SECONDS * 1_000,
        }
    )

    def say(line: str) -> None:
        view.notes.append(line)
        if not console.is_terminal:
            console.print(line, markup=False)

    def say_progress(line: str) -> None:
        if not console.is_terminal:  # a terminal shows the view instead
            console.print(line, markup=False)

    continues = (folder / "checkpoints" / LAYOUT_FILE).is_file()
    say("Spark is starting (about 20 s); in this demo a session beats every 10 s")

    def opened(spark: SparkSession, location: TableLocation) -> None:
        view.notes.clear()
        if continues:
            say(f"this demo continues the tables of an earlier one; to begin anew, delete {folder}")
        running.set()
        arguments = (spark, location, view, running, picture)
        refresher.append(threading.Thread(target=_refresh, args=arguments, daemon=True))
        refresher[0].start()

    def stopped(spark: SparkSession, location: TableLocation) -> None:
        running.clear()
        refresher[0].join()  # its query needs the engine
        create_views(spark, location)
        answers.extend((question, query, spark.sql(query).collect()) for question, query in QUERIES)

    evening = ("--live", "300", "--rate", "20", "--duration", f"{SECONDS + 30}s", "--dirt", "0.1")
    simulation = subprocess.Popen([sys.executable, *simulator, *evening], stderr=subprocess.DEVNULL)
    try:
        with stop_on_signals() as stop, Live(view, console=console, refresh_per_second=4, transient=True):
            summary = run(settings, stop, JobCallbacks(say, (view.add,), opened, stopped, say_progress))
    finally:
        simulation.terminate()
        simulation.wait()
    _show(console, settings, summary, answers)
    if settings.input_folder is not None:
        write_widget_values(folder, heartbeat=_HEARTBEAT)


def _refresh(
    spark: SparkSession, location: TableLocation, view: DemoView, running: threading.Event, picture: Path | None
) -> None:
    """Query the rows since the demo began once a micro-batch; more often would take cores from the job.

    It queries once before, because an engine's first query takes a second or two.
    """
    newest, counted, refused = view.began, 0, list[tuple[str, int]]()
    new_changes(spark, location, newest)
    while running.is_set():
        if view.is_behind.wait(_POLL_S):
            view.is_behind.clear()
            changes = new_changes(spark, location, newest)
            newest = changes[-1].processed_at.astimezone(UTC) if changes else newest
            if view.count_refused() > counted:
                counted, refused = view.count_refused(), refused_since(spark, location, view.began)
            view.show(changes, refused)
            if picture is not None and running.is_set():
                picture.write_text(view.picture(), encoding="utf-8")


def new_changes(spark: SparkSession, location: TableLocation, since: datetime) -> list[Row]:
    """The rows of `session_changes` that were processed after an instant, oldest first and ends last."""
    names = ("device_id", "session_id", "platform", "change", "end_reason", "revision", "duration_ms", "processed_at")
    rows = _later_than(spark, location, SESSION_CHANGES, "processed_at", since).select(*names).collect()
    return sorted(rows, key=lambda row: (row.processed_at, row.change == ChangeKind.ENDED))


def refused_since(spark: SparkSession, location: TableLocation, since: datetime) -> list[tuple[str, int]]:
    """How many messages `quarantine` got after an instant, by reason, the most frequent reason first."""
    rows = _later_than(spark, location, QUARANTINE, "ingested_at", since).select("reason").collect()
    return Counter(row.reason for row in rows).most_common()


def _later_than(
    spark: SparkSession, location: TableLocation, table: DeltaTable, instant: str, since: datetime
) -> DataFrame:
    """The rows whose column `instant` is after an instant; of other days no file is read."""
    assert table.day_column is not None
    is_later = (col(table.day_column) >= since.date()) & (col(instant) > since)
    return location.read(spark.read, table).where(is_later)


def _show(
    console: Console, settings: SessionizeSettings, summary: list[str], answers: list[tuple[str, str, list[Row]]]
) -> None:
    for line in summary:
        console.print(line, highlight=False, markup=False)
    for question, query, rows in answers:
        table = as_table(rows, console)
        table.title, table.title_justify = question, "left"
        console.print()
        console.print(query, style="cyan", highlight=False, markup=False)
        console.print(table)
    console.print(f"\nThe tables are in {TableLocation.of(settings.tables)}. Ask your own question:", highlight=False)
    folder = settings.state.checkpoints.parent
    demo_variable = "" if folder.name == ".demo" else f"DEMO={folder} "
    console.print(
        f'  make sql {demo_variable}Q="SELECT * FROM concurrent_sessions ORDER BY minute DESC LIMIT 10"', style="cyan"
    )
