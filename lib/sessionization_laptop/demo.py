"""The demo: simulator and job together on this machine, with a live view in the terminal."""

import threading
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from sessionization.players.players_job import keep_players
from sessionization.players.players_settings import PlayersSettings
from sessionization.settings.table_location_settings import Tables
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.views import create_views
from sessionization_laptop.demo_evening import HEARTBEAT, DemoView, Source, evening
from sessionization_laptop.notebook_folders import write_widget_values
from sessionization_laptop.query.answer import as_table
from sessionization_laptop.query.spark_answers import answer_of

SECONDS = 60
_REFRESH_S = 10  # more often would take cores from the job

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


def demo(folder: Path, simulate: Path, source: Source, picture: Path | None = None) -> None:
    """Play an evening, run the job on it for a minute, and show queries to try (`demo_evening.evening`).

    `picture` is a file for the last live view before the stop, as SVG.
    """
    view, players = DemoView(), Table()

    def look(spark: SparkSession) -> None:
        if not view.answers:
            create_views(spark, played.location)
            view.notes.clear()  # of the start
        view.answers = [*answers(spark, view.console)]

    def look_and_draw(spark: SparkSession) -> None:
        look(spark)
        if picture is not None:
            picture.write_text(view.picture(), encoding="utf-8")

    def look_at_end(spark: SparkSession) -> None:
        nonlocal players
        look(spark)
        players = _numbers_of_the_day(spark, played.settings.tables, view.console)

    with evening(folder, simulate, source, SECONDS) as played:
        summary = played.play(view, look_and_draw, _REFRESH_S, look_at_end)
    console = view.console
    console.print(*summary, sep="\n", highlight=False, markup=False)
    for query, answer in zip((*dict(QUERIES).values(), PLAYERS_QUERY), (*view.answers, players), strict=True):
        console.print(f"\n{query}", style="cyan", highlight=False, markup=False)
        console.print(answer)
    console.print(f"\nThe tables are in {played.location}. Ask your own question:", highlight=False)
    demo_variable = "" if folder.name == ".demo" else f"DEMO={folder} "
    console.print(
        f'  make sql {demo_variable}Q="SELECT * FROM concurrent_sessions ORDER BY minute DESC LIMIT 10"', style="cyan"
    )
    if played.settings.input_folder is not None:
        write_widget_values(folder, heartbeat=HEARTBEAT)


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
        table.min_width = len(question)  # in one line
        tables.append(table)
    return tables
