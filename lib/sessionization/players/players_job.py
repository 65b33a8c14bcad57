"""Brings the tables of players and days up to date: `keep_players` finds the days that are due, and computes them."""

import contextlib
import threading
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sessionization.clock import utc, wall_clock_ms
from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.errors import StoppedError
from sessionization.players.due_days import Progress, due_days, finish, note
from sessionization.players.player_tables import PlayerTables
from sessionization.players.player_views import PlayerViews
from sessionization.players.players_settings import PlayersSettings
from sessionization.say import Say
from sessionization.spark.engine.generated_code import GENERATED_CODE_CONF
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.newest import newest_ms, newest_update_ms
from sessionization.spark.engine.session import job_session, session_for_uris
from sessionization.spark.tables.creation import create_table
from sessionization.spark.tables.lease import PLAYERS_LEASE, hold_lease
from sessionization.spark.tables.lease_table import StoredLease, no_lease
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.metric_views import create_metric_views
from sessionization.spark.tables.schemas import (
    FINDING_LIMITS,
    PLAYER_PROGRESS,
    PLAYER_TABLES,
    SESSIONS,
    STREAM_PROGRESS,
)
from sessionization.spark.tables.views import title_sql

_USUAL_LIMITS = {"devices_at_once": 1, "without_end": 8 * HOUR_MS, "many_starts": 10, "foreground": 60_000}
"""The `most` of each finding. Play time has none: that is for law and parents to say."""


def keep_players(settings: PlayersSettings, say: Say, stop: threading.Event) -> None:
    """Bring the tables up to date; create them where they are missing.

    Raises `ConfigurationError` where there are no sessions, or the tables are in another time zone, `CheckpointError`
    where another run lives, `StreamError` when this one has lost its lease, and `StoppedError` when `stop` was set.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(session_for_uris(settings, say, GENERATED_CODE_CONF))
        location = TableLocation.of(settings.tables)
        location.require_folder(SESSIONS)
        is_exclusive = stack.enter_context(location.lock_for_players(say, stop))
        session = job_session(conf=GENERATED_CODE_CONF, depends_on=TIME_ZONE_CONF, settings=settings)
        spark = stack.enter_context(session)
        location.require(spark, (SESSIONS, STREAM_PROGRESS))
        check_lease = no_lease
        if not is_exclusive:
            stored = StoredLease(spark, location, PLAYERS_LEASE)
            check_lease = stack.enter_context(hold_lease(stored, "players", say, stop)).check

        def check() -> None:
            check_lease()
            if stop.is_set():
                msg = "stopped; the next run does what this one could not"
                raise StoppedError(msg)

        create_player_tables(spark, location)
        if location.warehouse is None:  # where the tables are folders, the views would end with this session
            create_metric_views(spark, location, say)
        update(spark, location, settings, say, check)


def create_player_tables(spark: SparkSession, location: TableLocation) -> None:
    """Create the tables that are missing, with the usual limits of findings.

    Where somebody has dropped one of them, the next run computes all days.
    """
    missing = set(location.missing(spark, PLAYER_TABLES))
    if missing - {FINDING_LIMITS.name} and PLAYER_PROGRESS.name not in missing:
        spark.sql(f"DELETE FROM {location.sql_name(PLAYER_PROGRESS.name)} WHERE reason = 'run'")
    for table in PLAYER_TABLES:
        create_table(spark, location, table, "no checkpoint")
    if location.newest_version(spark, FINDING_LIMITS) == 0:  # not where somebody has deleted them
        limits = [(finding, None, None, most) for finding, most in _USUAL_LIMITS.items()]
        location.append(spark.createDataFrame(limits, FINDING_LIMITS.schema), FINDING_LIMITS)


def update(
    spark: SparkSession,
    location: TableLocation,
    settings: PlayersSettings,
    say: Say,
    check: Callable[[], None] = no_lease,
) -> None:
    """Compute the days that are due, all from one version of `sessions`; `check` raises an error to end this run."""
    progress = Progress.read(spark, location)
    if not settings.rebuild:
        progress.refuse_other_zone(settings.time_zone)
    version = location.newest_version(spark, SESSIONS)
    sessions = spark.sql(f"SELECT * FROM {location.sql_name(SESSIONS.name)} VERSION AS OF {version}")
    newest = newest_update_ms(sessions)
    if newest is None and progress.last is not None:  # all are erased
        newest = progress.last.read_until_ms
    if newest is None:
        say("there are no sessions yet")
        return
    as_of_ms = min(_newest_batch_ms(spark, location) or newest, wall_clock_ms())
    title = title_sql(location.labels(spark))
    views = PlayerViews(spark, location, settings.time_zone, as_of_ms, title, {SESSIONS.name: version})
    try:
        due = due_days(views, progress, rebuild=settings.rebuild)
        check()
        note(spark, location, "begun", due)
        PlayerTables(views, check).write(due)
    finally:
        views.drop()
    check()
    finish(spark, location, min(newest, wall_clock_ms()), as_of_ms, settings.time_zone)
    say(
        f"{len(due):,} days from {min(due)} to {max(due)} are computed; live sessions count up to {utc(as_of_ms):%F %T}"
    )


def _newest_batch_ms(spark: SparkSession, location: TableLocation) -> int | None:
    """The clock of the stream's newest micro-batch: while the job stands still, live sessions do not grow."""
    batches = location.read(spark.read, STREAM_PROGRESS).where("query = 'sessionize'")
    since = F.timestamp_millis(F.lit(wall_clock_ms() - DAY_MS))
    return newest_ms(batches.where(F.col("processed_at") >= since), "processed_at") or newest_ms(
        batches, "processed_at"
    )
