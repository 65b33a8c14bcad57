"""A week of players for the notebook 07_players: simulated, sent through the job's parser, rules and MERGE."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from sessionization.backfill.backfill_job import ReplayScope, replay_sessions
from sessionization.clock import utc
from sessionization.core.session_state import Rules
from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.players.players_job import create_player_tables, update
from sessionization.players.players_settings import PlayersSettings
from sessionization.say import Say
from sessionization.settings.rule_settings import RuleSettings
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock
from sessionization.spark.tables import rollup
from sessionization.spark.tables.creation import create_tables, fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import RAW_EVENTS, STREAM_PROGRESS
from sessionization_simulator.launch_week import FLEET, LASTS_MS, launch_week
from sessionization_simulator.message_text import Wording

_MONDAY: Final = datetime(2026, 11, 16, tzinfo=UTC)
_BEGINS_MS: Final = int(_MONDAY.timestamp()) * 1_000
_ENDS_MS: Final = _BEGINS_MS + LASTS_MS


def load_week(spark: SparkSession, folder: Path, say: Say) -> Path:
    """The warehouse with the tables of the week, in `folder`; the first call makes them, in about a minute."""
    if not folder.is_dir():
        say("the week is played once, which takes about a minute")
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        _play(spark, TableLocation(unfinished))
        unfinished.rename(folder)
    return folder


def _play(spark: SparkSession, location: TableLocation) -> None:
    events, layout = package_map(PLAYSTATION), StateLayout(labels=package_map(PLAYSTATION).label_columns())
    create_tables(spark, location, owner="the week of the notebook 07_players")
    fit_to_events(spark, location, events, layout.labels)
    messages, wording = launch_week(_BEGINS_MS), Wording(events, FLEET)
    rows = [
        (stream, None, None, "simulated", taken_at := utc(int(message["deliver_ms"])), text, taken_at.date())
        for stream, of_stream in wording.by_stream(messages)
        for message, (_, text) in zip(of_stream, wording.keyed_texts(of_stream, stream), strict=True)
    ]
    location.append(spark.createDataFrame(rows, RAW_EVENTS.schema), RAW_EVENTS)
    rules, limits = Rules(), RuleSettings().of_event_times
    scope = ReplayScope(_BEGINS_MS, _ENDS_MS, rules, limits, layout, events)
    folded = replay_sessions(spark, location, scope, MicroBatchClock(_ENDS_MS))
    since = rollup.search_since(_BEGINS_MS, rollup.lookback(limits.max_event_age_ms, rules.session_timeout_ms))
    rollup.merge_folded(spark, location, folded, since)
    newest = {"query": "sessionize", "batch_id": 0, "processed_at": utc(_ENDS_MS), "rows_in": len(rows)}
    progress = [tuple(map(newest.get, STREAM_PROGRESS.column_names))]
    location.append(spark.createDataFrame(progress, STREAM_PROGRESS.schema), STREAM_PROGRESS)
    create_player_tables(spark, location)
    settings = PlayersSettings.model_validate({"tables": {"warehouse": location.warehouse}})
    update(spark, location, settings, lambda _: None)
