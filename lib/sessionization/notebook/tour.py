"""The tour: ten events written by hand, through the pure core and through the real operator."""

import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field
from pyspark.sql import DataFrame, SparkSession

from sessionization.clock import wall_clock_ms
from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.errors import StreamError
from sessionization.files import write_atomically
from sessionization.notebook import timeline
from sessionization.notebook.core_replay import Row, replay_devices
from sessionization.notebook.handmade_messages import Message
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.checkpoint.take_log import TAKES_FOLDER
from sessionization.spark.input.file_taker import FileTaker
from sessionization.spark.input.parse import EventTimeLimits, parse, valid_events
from sessionization.spark.input.source import file_messages
from sessionization.spark.input.ticks import tick_stream
from sessionization.spark.output.progress import last_engine_progress
from sessionization.spark.pipeline import session_changes
from sessionization.streams import CONSOLE_STREAM, PC_STREAM

RULES: Final = Rules(heartbeat_ms=4_000, session_timeout_ms=12_000, late_retention_ms=6_000)
"""Rules short enough that everything happens while a person watches."""
SECONDS: Final = 24
"""The length of the tour through the core: until no session is live and no End waits."""
ZERO_MS: Final = 1_800_000_000_000
"""The start of the tour through the core, in UTC milliseconds."""
_LONGEST_S = 180
_TICK_MS = 500
_FIRST_MICRO_BATCH_S = 120
_LIMITS = EventTimeLimits(600_000, 600_000)


class TourSettings(BaseModel):
    """Where the tour may play."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path = Field(description="folder for the tour's files, on a volume; what it writes it deletes again")


@dataclass(frozen=True, slots=True)
class TourEvent:
    """An event by hand; `arrives_s` (arrival) and `at_s` (event time) are seconds after the start of the tour."""

    arrives_s: float
    device_id: str
    platform: Platform
    session_id: int
    is_start: bool
    at_s: float

    def event(self, zero_ms: int) -> Event:
        """Build the event for the rules, in a tour that starts at `zero_ms`."""
        at_ms, ingested_ms = zero_ms + round(self.at_s * 1_000), zero_ms + round(self.arrives_s * 1_000)
        kind = Start if self.is_start else End
        return kind(self.session_id, at_ms, self.platform, ingested_ms)

    def message(self, zero_ms: int) -> Message:
        """Build the message that the device sends, in a tour that starts at `zero_ms`."""
        at_ms = zero_ms + round(self.at_s * 1_000)
        return Message(self.device_id, self.session_id, self.is_start, at_ms, self.platform)


_PC, _CONSOLE = Platform.PC, Platform.CONSOLE
TEN_EVENTS: Final = (
    TourEvent(0, "console-1", _CONSOLE, 1, True, 0),
    TourEvent(1, "pc-2", _PC, 2, True, 1),
    TourEvent(2, "console-3", _CONSOLE, 5, True, 2),
    TourEvent(3, "pc-4", _PC, 4, False, 3),
    TourEvent(4, "console-1", _CONSOLE, 1, True, 0),
    TourEvent(4.5, "pc-5", _PC, 6, False, 4),
    TourEvent(5, "pc-4", _PC, 4, True, 1),
    TourEvent(6, "pc-2", _PC, 3, True, 6),
    TourEvent(8, "pc-2", _PC, 2, False, 5),
    TourEvent(9, "console-1", _CONSOLE, 1, False, 9),
)
CAPTION_BY_DEVICE: Final = {
    "console-1": "a Start opens (S5), the same Start again says nothing new (S1), the End closes (E1)",
    "pc-2": "a second Start supersedes (S4); then the first one's own End corrects the guess (E2)",
    "console-3": "no End ever comes: it beats (T2) until it times out (T1)",
    "pc-4": "the End comes before its Start, and waits (E4); the Start makes the session whole (S2)",
    "pc-5": "an End whose Start never comes is reported in the end as orphaned (T4)",
}


def through_core(events: Sequence[TourEvent] = TEN_EVENTS, zero_ms: int = ZERO_MS) -> list[Row]:
    """Apply the pure rules to the events, in simulated time, with a micro-batch every half a second."""
    events_by_device: defaultdict[str, list[Event]] = defaultdict(list)
    for source in events:
        events_by_device[source.device_id].append(source.event(zero_ms))
    until_ms = zero_ms + SECONDS * 1_000
    return replay_devices(events_by_device, RULES, every_ms=_TICK_MS, until_ms=until_ms)


def through_operator(
    spark: SparkSession, folder: Path, events: Sequence[TourEvent] = TEN_EVENTS
) -> tuple[list[Row], int]:
    """Write the events into files in real time; the real parser and operator read them from there.

    Returns:
        The changes in the order in which they came, and the start of the tour in UTC milliseconds.

    Raises `StreamError` where the query ends on its own.
    """
    tour_folder = folder / f"tour-{uuid4().hex[:8]}"
    (tour_folder / PC_STREAM).mkdir(parents=True)
    (tour_folder / CONSOLE_STREAM).mkdir()
    changes: list[Row] = []
    lock = threading.Lock()

    def collect(batch: DataFrame, _batch_id: int) -> None:
        rows = [_without_kind(row.asDict()) for row in batch.where("change IS NOT NULL").collect()]
        with lock:
            changes.extend(rows)

    try:
        with _running_query(spark, tour_folder, collect) as check_query:
            zero_ms = wall_clock_ms()
            for number, event in enumerate(events):
                _wait_until(zero_ms + round(event.arrives_s * 1_000), check_query)
                message = event.message(zero_ms)
                write_atomically(tour_folder / message.stream / f"{number}.json", message.line())
            session_keys = {(event.device_id, event.session_id) for event in events}
            while len(last_ends(changes)) < len(session_keys) and wall_clock_ms() < zero_ms + _LONGEST_S * 1_000:
                _wait_until(wall_clock_ms() + _TICK_MS, check_query)
    finally:
        shutil.rmtree(tour_folder, ignore_errors=True)
    return changes, zero_ms


def last_ends(changes: Sequence[Row]) -> list[tuple[str, int, str]]:
    """List the last end of each session as device, session, reason; the core and the operator agree on it.

    Revisions may differ: within one micro-batch the older message is applied first, so it may need no correction.
    """
    last: dict[tuple[str, int], Row] = {}
    for change in list(changes):
        key = change["device_id"], change["session_id"]
        if change["change"] == "ended" and change["revision"] >= last.get(key, {"revision": 0})["revision"]:
            last[key] = change
    return sorted((*key, str(row["end_reason"])) for key, row in last.items())


def picture(
    changes: Sequence[Row], title: str, zero_ms: int = ZERO_MS, events: Sequence[TourEvent] = TEN_EVENTS
) -> Figure:
    """Draw a strip per device, with its messages below its sessions; `zero_ms` is the start of the tour."""
    devices = [
        timeline.DeviceTimeline(
            device_id,
            CAPTION_BY_DEVICE[device_id] if events is TEN_EVENTS else "",
            timeline.bars_of(change for change in changes if change["device_id"] == device_id),
            [
                (">" if event.is_start else "<", zero_ms + round(event.arrives_s * 1_000))
                for event in events
                if event.device_id == device_id
            ],
        )
        for device_id in dict.fromkeys(event.device_id for event in events)
    ]
    return timeline.draw(devices, title)


@contextmanager
def _running_query(
    spark: SparkSession, tour_folder: Path, collect: Callable[[DataFrame, int], None]
) -> Iterator[Callable[[], None]]:
    """Run the operator over the messages in `tour_folder`.

    Yields, after the first micro-batch or two minutes, a function that raises `StreamError` if the query has ended.
    """
    log_folder = tour_folder / TAKES_FOLDER
    taker = FileTaker(tour_folder, log_folder, 1)
    events = valid_events(parse(file_messages(spark, tour_folder, log_folder), _LIMITS))
    writer = (
        session_changes(events, tick_stream(spark), StateLayout(), RulesInForce(RULES))
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(tour_folder.absolute() / "checkpoint"))
        .trigger(processingTime=f"{_TICK_MS} milliseconds")
    )

    def check_query() -> None:
        if not query.isActive:
            msg = f"the tour's query ended: {query.exception()}"
            raise StreamError(msg)
        taker.check()

    with taker.running(_TICK_MS):
        query = writer.start()
        try:
            deadline_s = time.monotonic() + _FIRST_MICRO_BATCH_S
            while last_engine_progress(query) is None and time.monotonic() < deadline_s:
                check_query()
                time.sleep(0.1)
            yield check_query
        finally:
            query.stop()


def _wait_until(instant_ms: int, check_query: Callable[[], None]) -> None:
    while (left_ms := instant_ms - wall_clock_ms()) > 0:
        check_query()
        time.sleep(min(left_ms, 200) / 1_000)


def _without_kind(row: Mapping[str, Any]) -> Row:
    return {name: value for name, value in row.items() if name != "kind"}
