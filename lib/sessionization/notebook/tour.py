"""The tour: ten messages written by hand, through the pure core and through the real operator."""

import json
import shutil
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import utc, wall_clock_ms
from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.files import write_atomically
from sessionization.message_limits import EventTimeLimits
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.parse import parse, valid_events
from sessionization.spark.input.source import glob_escaped
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.output.progress import last_engine_progress
from sessionization.spark.output.sinks import to_session_changes
from sessionization.spark.pipeline import session_changes
from sessionization.spark.replay.device_replay import replay
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock

RULES: Final = Rules(heartbeat_ms=4_000, session_timeout_ms=12_000, late_retention_ms=6_000)
"""Rules short enough that everything happens while a person watches."""
_CORE_ZERO_MS, _CORE_MS = 1_800_000_000_000, 24_000
"""The start of the tour through the core, and how long it lasts: until no session is live and no End waits."""
_LONGEST_MS, _SESSIONS = 180_000, 6
_LIMITS = EventTimeLimits(600_000, 600_000)
_MAP = package_map(DEFAULT)
_PC_STREAM, _CONSOLE_STREAM = _MAP.stream_names


@dataclass(frozen=True, slots=True)
class Message:
    """A device's message that a session started or ended; `at_ms` is the event time in UTC milliseconds."""

    device_id: str
    session_id: int
    is_start: bool
    at_ms: int
    platform: Platform = Platform.PC

    @property
    def stream(self) -> str:
        """The folder or topic that the message belongs to."""
        return _PC_STREAM if self.platform is Platform.PC else _CONSOLE_STREAM

    def line(self) -> str:
        """Format the message as a line of JSON."""
        fields = {
            "appSessionId": self.session_id,
            "eventId": (_MAP.kinds.start if self.is_start else _MAP.kinds.end)[0],
            "hostPcId" if self.platform is Platform.PC else "openPsid": self.device_id,
            "timestamp": utc(self.at_ms).isoformat(timespec="milliseconds"),
        }
        return json.dumps(fields) + "\n"


_CONSOLE = Platform.CONSOLE
TEN_MESSAGES: Final = (
    (0, Message("console-1", 1, True, 0, _CONSOLE)),
    (1_000, Message("pc-2", 2, True, 1_000)),
    (2_000, Message("console-3", 5, True, 2_000, _CONSOLE)),
    (3_000, Message("pc-4", 4, False, 3_000)),
    (4_000, Message("console-1", 1, True, 0, _CONSOLE)),
    (4_500, Message("pc-5", 6, False, 4_000)),
    (5_000, Message("pc-4", 4, True, 1_000)),
    (6_000, Message("pc-2", 3, True, 6_000)),
    (8_000, Message("pc-2", 2, False, 5_000)),
    (9_000, Message("console-1", 1, False, 9_000, _CONSOLE)),
)
"""When each message comes, and the message; both times are milliseconds after the start of the tour."""


def replay_devices(events: Mapping[str, Iterable[Event]], rules: Rules, until_ms: int) -> list[dict[str, Any]]:
    """Apply the rules to the events of devices, in simulated time, with a micro-batch each second.

    Returns:
        The changes, device by device: the fields of `Change`, `device_id`, and the kind as `change`.
    """
    clock, rows = MicroBatchClock(until_ms), list[dict[str, Any]]()
    for device_id, of_device in events.items():
        in_order = sorted(of_device, key=lambda event: event.ingested_ms)
        batches = groupby(in_order, lambda event: clock.at_or_after(event.ingested_ms))
        taken = ((now_ms, list(batch)) for now_ms, batch in batches)
        changes = replay(taken, grid_for_key(device_id, rules.heartbeat_ms), rules, clock, heartbeats=True)
        rows += (change._asdict() | {"device_id": device_id, "change": str(change.kind)} for change in changes)
    return rows


def through_core() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Apply the pure rules to the ten messages, in simulated time; returns changes and messages to draw."""
    events: defaultdict[str, list[Event]] = defaultdict(list)
    for arrives_ms, message in TEN_MESSAGES:
        kind, at_ms, ingested_ms = Start if message.is_start else End, message.at_ms, _CORE_ZERO_MS + arrives_ms
        events[message.device_id].append(kind(message.session_id, _CORE_ZERO_MS + at_ms, message.platform, ingested_ms))
    changes = pd.DataFrame(replay_devices(events, RULES, _CORE_ZERO_MS + _CORE_MS))
    for name in ("processed", "started", "ended", "due"):
        changes[f"{name}_at"] = pd.to_datetime(changes[f"{name}_ms"], unit="ms")
    return changes, _arrivals(_CORE_ZERO_MS)


def through_operator(spark: SparkSession, folder: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Write the ten messages into files, in real time; the real parser and operator read them from `folder`.

    Returns:
        As `through_core`.

    Raises `StreamingQueryException` where the query fails.
    """
    folder = folder.absolute() / f"tour-{uuid4().hex[:8]}"
    for stream in _MAP.stream_names:
        (folder / stream).mkdir(parents=True)
    messages = spark.readStream.text(f"{glob_escaped(folder)}/*_sessions").selectExpr(
        "regexp_extract(_metadata.file_path, '([a-z_]+)/[^/]+$', 1) AS stream",
        "_metadata.file_modification_time AS ingested_at",
        "CAST(value AS binary) AS value",
    )
    events = valid_events(parse(messages, _LIMITS, _MAP))
    changes: list[dict[Any, Any]] = []

    def collect(batch: DataFrame, _batch_id: int) -> None:
        changes.extend(to_session_changes(batch).toPandas().to_dict("records"))

    query = (
        session_changes(events, tick_stream(spark), StateLayout(), RulesInForce(RULES))
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    try:
        while last_engine_progress(query) is None:
            query.awaitTermination(1)  # raises if the query has failed
        zero_ms = wall_clock_ms()
        for number, (arrives_ms, message) in enumerate(TEN_MESSAGES):
            time.sleep(max(0, zero_ms + arrives_ms - wall_clock_ms()) / 1_000)
            line = replace(message, at_ms=zero_ms + message.at_ms).line()
            write_atomically(folder / message.stream / f"{number}.json", line)
        while wall_clock_ms() < zero_ms + _LONGEST_MS:
            query.awaitTermination(1)
            if len({change["session_id"] for change in changes if change["change"] == "ended"}) == _SESSIONS:
                break
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return pd.DataFrame(changes), _arrivals(zero_ms)


def last_ends(changes: pd.DataFrame) -> "pd.Series[str]":
    """The reason of each session's last end, by device and session; the core and the operator agree on it.

    Revisions may differ: within one micro-batch the older message is applied first, so it may need no correction.
    """
    ends = changes[changes["change"] == "ended"].sort_values("revision")
    return ends.groupby(["device_id", "session_id"])["end_reason"].last().astype(str)


def _arrivals(zero_ms: int) -> pd.DataFrame:
    rows = [(one.device_id, one.session_id, one.is_start, zero_ms + arrives_ms) for arrives_ms, one in TEN_MESSAGES]
    messages = pd.DataFrame(rows, columns=["device_id", "session_id", "is_start", "ingested_at"])
    return messages.assign(ingested_at=pd.to_datetime(messages["ingested_at"], unit="ms"))
