"""The demo: simulator and job together on this machine, with a live view in the terminal."""

import io
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.files import refuse_unwritable
from sessionization.job.sessionize_job import run
from sessionization.players.players_job import keep_players
from sessionization.players.players_settings import PlayersSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.settings.table_location_settings import Tables
from sessionization.spark.checkpoint.folder import LAYOUT_FILE
from sessionization.spark.engine.session import job_session
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES
from sessionization.spark.tables.views import create_views
from sessionization.stop_signals import stop_on_signals
from sessionization_laptop.broker import Broker
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from sessionization_laptop.notebook_folders import write_widget_values
from sessionization_laptop.query.answer import as_table
from sessionization_laptop.query.spark_answers import answer_of

SECONDS = 60
_HEARTBEAT = "10s"
_REFRESH_S = 10
_WIDTH = 80

QUERIES = (
    (
        "How did sessions end?",
        "SELECT end_reason, count(*) AS sessions, cast(avg(duration_ms) / 1000 AS int) AS avg_seconds\n"
        "FROM sessions WHERE status = 'ended' GROUP BY end_reason ORDER BY sessions DESC",
    ),
    (
        "Which sessions are live, and when did they last beat?",
        "SELECT platform, device_id, session_id, beat, heartbeat_age_ms\n"
        "FROM live_sessions ORDER BY started_at LIMIT 3",
    ),
    (
        "Which games are played?",
        "SELECT title, count(*) AS live FROM live_sessions GROUP BY title ORDER BY live DESC LIMIT 4",
    ),
    (
        "What was refused, and why?",
        "SELECT reason, count(*) AS messages FROM quarantine GROUP BY reason ORDER BY messages DESC LIMIT 5",
    ),
)

PLAYERS_QUERY = (
    "SELECT title, dau, sessions, length_p50_ms DIV 1000 AS median_seconds, peak_sessions, peak_minute\n"
    "FROM daily_activity WHERE platform = 'all' ORDER BY day DESC, dau DESC LIMIT 5"
)
"""How many play which game today? Asked once, at the end."""

Source = Literal["files", "kafka"]
_TOPIC_PARTITIONS = 2


@dataclass
class DemoView:
    """What a terminal shows while the job runs: its newest progress, the answers to `QUERIES`, and its notes."""

    progress: str = "no micro-batch yet"
    answers: list[Table] = field(default_factory=list)
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))

    def __rich__(self) -> Group:
        title, stop = "gaming sessionization", "Ctrl-C stops it"
        progress = Panel(self.progress, title=title, subtitle=stop, title_align="left")
        return Group(progress, *self.answers, *self.notes)

    def picture(self) -> str:
        """The view as an SVG image, without fonts from elsewhere."""
        console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(self)
        return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)


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
        broker.create_topics(dict.fromkeys(package_map(PLAYSTATION).stream_names, _TOPIC_PARTITIONS))
        servers = broker.bootstrap_servers
        yield ["--sink", "kafka", "--bootstrap-servers", servers], {"type": "kafka", "bootstrap_servers": servers}


def _run_demo(folder: Path, simulator: list[str | Path], source_settings: dict[str, Any], picture: Path | None) -> None:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
    console, view = Console(), DemoView()
    settings = SessionizeSettings.model_validate(
        {
            "source": source_settings,
            "tables": {"warehouse": folder / "warehouse"},
            "rules": {"heartbeat": _HEARTBEAT},
            "state": {"checkpoints": folder / "checkpoints"},
            "events": PLAYSTATION,
            "run_for": SECONDS * 1_000,
        }
    )
    is_over, location = threading.Event(), TableLocation.of(settings.tables)

    def say(line: str) -> None:
        view.notes.append(line)
        if not console.is_terminal:
            console.print(line, markup=False)

    def say_progress(line: str) -> None:
        view.progress = line
        if not console.is_terminal:
            console.print(line, markup=False)

    def look(spark: SparkSession) -> None:
        if not view.answers:
            create_views(spark, location)
            view.notes.clear()  # of the start
        view.answers = answers(spark, console)

    def refresh(spark: SparkSession) -> None:
        # More often would take cores from the job.
        while not is_over.wait(_REFRESH_S):
            if not location.missing(spark, TABLES):
                look(spark)
            if picture is not None and not is_over.is_set():
                picture.write_text(view.picture(), encoding="utf-8")

    if (folder / "checkpoints" / LAYOUT_FILE).is_file():
        say(f"this demo continues the tables of an earlier one; to begin anew, delete {folder}")
    say("Spark is starting (about 20 s); in this demo a session beats every 10 s")
    evening = (
        "--live", "300", "--rate", "20", "--duration", f"{SECONDS + 30}s", "--dirt", "0.1", "--events", PLAYSTATION,
    )  # fmt: skip
    simulation = subprocess.Popen([sys.executable, *simulator, *evening], stderr=subprocess.DEVNULL)
    try:
        with (
            stop_on_signals() as stop,
            Live(view, console=console, refresh_per_second=4, transient=True),
            job_session(folder / "engine.log") as spark,
        ):
            refresher = threading.Thread(target=refresh, args=(spark,), daemon=True)
            refresher.start()
            summary = run(settings, stop, say, say_progress=say_progress)
            is_over.set()
            refresher.join()
            look(spark)
            players = _numbers_of_the_day(spark, settings.tables, console)
    finally:
        is_over.set()
        simulation.terminate()
        simulation.wait()
    console.print(*summary, sep="\n", highlight=False, markup=False)
    for query, answer in zip((*dict(QUERIES).values(), PLAYERS_QUERY), (*view.answers, players), strict=True):
        console.print(f"\n{query}", style="cyan", highlight=False, markup=False)
        console.print(answer)
    console.print(f"\nThe tables are in {location}. Ask your own question:", highlight=False)
    demo_variable = "" if folder.name == ".demo" else f"DEMO={folder} "
    console.print(
        f'  make sql {demo_variable}Q="SELECT * FROM concurrent_sessions ORDER BY minute DESC LIMIT 10"', style="cyan"
    )
    if settings.input_folder is not None:
        write_widget_values(folder, heartbeat=_HEARTBEAT)


def _numbers_of_the_day(spark: SparkSession, tables: Tables, console: Console) -> Table:
    """Run the job players on the demo's tables, and ask them."""
    keep_players(PlayersSettings(tables=tables), lambda _: None, threading.Event())
    create_views(spark, TableLocation.of(tables))
    return as_table(answer_of(spark.sql(PLAYERS_QUERY)), console)


def answers(spark: SparkSession, console: Console) -> list[Table]:
    """What the tables say to `QUERIES` now."""
    tables = []
    for question, query in QUERIES:
        table = as_table(answer_of(spark.sql(query)), console)
        table.title, table.title_justify, table.box = question, "left", None
        tables.append(table)
    return tables
