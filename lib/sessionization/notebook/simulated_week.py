"""A simulated week without waiting for it: the simulator's messages, replayed through the core at their own times."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from sessionization.backfill.backfill_job import folded_columns
from sessionization.backfill.columns import ArrowReplay
from sessionization.backfill.micro_batch_clock import MicroBatchClock
from sessionization.clock import wall_clock_ms
from sessionization.core.session_state import Rules
from sessionization.durations import DAY_MS, MINUTE_MS, format_duration
from sessionization.simulate.dirt_kinds import DirtKind
from sessionization.simulate.fleet import Fleet, Text
from sessionization.simulate.message_schedule import Messages, in_order
from sessionization.simulate.play_at_once import play_at_once
from sessionization.simulate.simulate_settings import SimulateSettings
from sessionization.spark.input.parse import EVENT_COLUMNS
from sessionization.spark.tables import rollup

Players = Literal["without habits", "with habits"]
_LENGTH_MS = 45 * MINUTE_MS
_DIRT = 0.02
_HONEST_KINDS = (
    DirtKind.REPEAT, DirtKind.LATE_END, DirtKind.END_BEFORE_START, DirtKind.OVERLAP, DirtKind.LOST_START,
    DirtKind.LOST_END, DirtKind.SKEWED_CLOCK,
)  # fmt: skip
"""The kinds of dirt that leave a message valid; what the parser would refuse makes no session."""


@dataclass(frozen=True, slots=True)
class SimulatedWeek:
    """Rows of `sessions` after a week of play.

    Attributes:
        sessions: rows of the table `sessions`; those that are live at the end of the week, too.
        span_ms: begin and end of the week, UTC milliseconds.
    """

    sessions: DataFrame
    span_ms: tuple[int, int]


def simulate_week(
    spark: SparkSession, players: Players, *, live: int = 40, days: int = 7, seed: int = 1
) -> SimulatedWeek:
    """Let players play for some days that end this midnight (UTC), and make their sessions.

    The same arguments give the same sessions on the same day. A week of 40 live sessions has 9,000 sessions, and takes
    some seconds.

    Args:
        spark: makes the rows.
        players: whether session lengths depend on account and time of day (`simulate.habits`), or on nothing.
        live: how many sessions are live at any time.
        days: how many days are played.
        seed: of the players and their play.
    """
    end_ms = wall_clock_ms() // DAY_MS * DAY_MS
    begin_ms = end_ms - days * DAY_MS
    settings = SimulateSettings.model_validate(
        {
            "output": "unused",
            "live": live,
            "session_length": _LENGTH_MS,
            "duration": format_duration(days * DAY_MS),
            "habits": players == "with habits",
            "dirt": _DIRT,
            "dirt_kinds": _HONEST_KINDS,
            "seed": seed,
        }
    )
    events = _events(*play_at_once(settings, begin_ms))
    rows = ArrowReplay(Rules(), MicroBatchClock(end_ms))(events.to_batches())
    folded = folded_columns(spark.createDataFrame(pa.Table.from_batches(rows)))
    return SimulatedWeek(rollup.to_session_rows(folded), (begin_ms, end_ms))


def _events(messages: Messages, fleet: Fleet) -> pa.Table:
    """The messages as the parser would read them: `EVENT_COLUMNS`, by device and then by arrival."""
    messages = in_order(messages, "device")
    devices, is_end = messages["device"], messages["is_end"]
    return pa.table(
        [
            _texts(fleet.ids(devices)),
            pa.array(messages["session_id"]),
            pa.array(~is_end),
            pa.array(messages["at_ms"]),
            pa.array(messages["foreground_s"], mask=~(is_end & messages["has_foreground"])),
            _texts(fleet.accounts(devices), mask=~messages["has_account"]),
            pa.array(np.where(fleet.are_consoles(devices), "console", "pc")),
            pa.array(messages["deliver_ms"]),
        ],
        names=list(EVENT_COLUMNS),
    )


def _texts(codes: Text, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    texts = np.ascontiguousarray(codes).view(f"S{codes.shape[1]}").ravel().astype(str)
    return pa.array(texts, mask=mask)
