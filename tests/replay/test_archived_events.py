"""Packed events in Arrow batches are replayed device by device: the same rows as the stream's."""

import dataclasses
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from sessionization.core.events import Change, ChangeKind, End, EndReason, Event, Platform, Start
from sessionization.core.session_state import Rules
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.replay import archived_events
from sessionization.spark.replay.micro_batch_clock import build_clock
from tests.support.operator_engine import event_row
from tests.support.random_histories import Batch, History, histories, law_settings
from tests.support.reference import session_rows
from tests.support.replayed import any_rules, merge_equal_clocks, streamed_rows

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
RULES = Rules()


def packed(history: History) -> pa.Table:
    """The events sorted by device and ingest time, as `pack_event` writes them."""
    rows = sorted(
        ((device_id, event.ingested_ms, event) for batch in history for device_id, event in batch.rows),
        key=lambda row: row[:2],
    )
    texts = [event_row(device_id, device_id, event).event for device_id, _, event in rows]
    ids, ingested_ms = ([row[column] for row in rows] for column in (0, 1))
    return pa.table({"device_id": ids, "ingested_ms": pa.array(ingested_ms, pa.int64()), "event": texts})


def read_change(row: dict[str, Any]) -> tuple[str, Change]:
    fields = {name: row[name] for name in Change._fields if name in row}
    kind, reason = ChangeKind(row["kind"]), row["end_reason"] and EndReason(row["end_reason"])
    return row["device_id"], Change(**fields | {"kind": kind, "end_reason": reason})


def ingested_with_batch(history: History) -> History:
    """Returns the history with the ingest time of each event set to the clock of its micro-batch."""
    return tuple(
        Batch(
            batch.now_ms,
            tuple((device_id, dataclasses.replace(event, ingested_ms=batch.now_ms)) for device_id, event in batch.rows),
        )
        for batch in history
    )


def check_replay(rules: Rules, history: History, *, in_batches_of: int = 7) -> None:
    clocks = [batch.now_ms for batch in history]
    clock = build_clock((clocks, clocks, clocks), (clocks, clocks), until_ms=clocks[-1])
    batches = packed(history).to_batches(max_chunksize=in_batches_of)
    replayed = archived_events._replay_devices(batches, clock, rules, StateLayout())
    changes = [read_change(row) for batch in replayed for row in batch.to_pylist()]
    assert session_rows(changes) == streamed_rows(rules, history)


@law_settings(300)
@given(any_rules, histories(max_batches=30, max_rows=4).filter(lambda history: any(batch.rows for batch in history)))
def test_a_replay_of_a_dirty_history_gives_the_streams_rows(rules: Rules, history: History) -> None:
    check_replay(rules, ingested_with_batch(merge_equal_clocks(history)))


def simulated_evenings(seed: int, dirt: float) -> History:
    """Draws sessions of 40 devices over two days, with dirt, in micro-batches of 10 s with an outage of an hour."""
    rng = random.Random(seed)
    moments: list[tuple[int, str, Event]] = []
    for number in range(40):
        at_ms, device_id = rng.randrange(6 * HOUR), f"d{number}"
        for session_id in range(rng.randrange(1, 12)):
            length_ms = rng.randrange(10 * SECOND, 28 * MINUTE)
            platform, account_id = rng.choice(list(Platform)), rng.choice([None, "ann", "bob"])
            start = Start(session_id, at_ms, platform, 0, account_id)
            end = End(session_id, at_ms + length_ms, platform, 0, rng.choice([None, account_id]), rng.choice([None, 5]))
            for event in (start, end):
                if rng.random() < dirt / 2:
                    continue
                for _ in range(1 + (rng.random() < dirt)):
                    late_ms = rng.randrange(2 * HOUR) if rng.random() < dirt else rng.randrange(3 * SECOND)
                    moments.append((event.at_ms + late_ms, device_id, event))
            at_ms += length_ms + rng.choice([0, 5 * SECOND, 9 * MINUTE, 50 * MINUTE, 5 * HOUR])
    rows_by_clock: defaultdict[int, list[tuple[str, Event]]] = defaultdict(list)
    for arrives_ms, device_id, event in moments:
        now_ms = -(-arrives_ms // (10 * SECOND)) * 10 * SECOND
        if 3 * HOUR < now_ms < 4 * HOUR:
            now_ms = 4 * HOUR
        rows_by_clock[now_ms].append((device_id, event))
    last_ms = max(rows_by_clock) + 2 * HOUR
    clocks = [ms for ms in range(0, last_ms, 10 * SECOND) if not 3 * HOUR < ms < 4 * HOUR]
    return ingested_with_batch(tuple(Batch(ms, tuple(rows_by_clock.get(ms, ()))) for ms in clocks))


@pytest.mark.parametrize(("seed", "dirt"), [(1, 0.0), (2, 0.1), (3, 0.5)])
def test_a_replay_of_simulated_evenings_gives_the_streams_rows(seed: int, dirt: float) -> None:
    check_replay(RULES, simulated_evenings(seed, dirt), in_batches_of=50)


@pytest.mark.parametrize("gap_ms", [5 * MINUTE, 5 * HOUR])
def test_a_session_that_is_repeated_makes_one_row(gap_ms: int) -> None:
    moments: list[tuple[int, Event]] = []
    for at_ms in (MINUTE, MINUTE + gap_ms):
        moments.append((at_ms, Start(1, at_ms, Platform.PC, at_ms)))
        moments.append((at_ms + MINUTE, End(1, at_ms + MINUTE, Platform.PC, at_ms + MINUTE)))
    check_replay(RULES, tuple(Batch(now_ms, (("d", event),)) for now_ms, event in moments))
