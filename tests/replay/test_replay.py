"""A replay of archived events gives the rows of the stream, makes no heartbeats, and knows each micro-batch's clock."""

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from sessionization.core.events import Change, ChangeKind, EndReason
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.replay import archived_events
from sessionization.spark.replay.device_replay import replay
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock, build_clock
from tests.support.histories import start
from tests.support.operator_engine import event_row
from tests.support.random_histories import (
    Batch,
    History,
    any_rules,
    cases,
    law_settings,
    merge_equal_clocks,
    streamed_rows,
)
from tests.support.reference_sessions import session_rows


def packed(history: History) -> pa.Table:
    """The events sorted by device and ingest time, as `pack_event` writes them."""
    rows = sorted(
        ((device_id, event.ingested_ms, event) for batch in history for device_id, event in batch.rows),
        key=lambda row: row[:2],
    )
    texts = [event_row(device_id, device_id, event).event for device_id, _, event in rows]
    ids, ingested_ms = ([row[column] for row in rows] for column in (0, 1))
    return pa.table({"device_id": ids, "ingested_ms": pa.array(ingested_ms, pa.int64()), "text": texts})


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


@law_settings(500)
@given(cases(any_rules, max_batches=30, max_rows=4).filter(lambda case: any(batch.rows for batch in case[1])))
def test_a_replay_of_a_dirty_history_gives_the_streams_rows(case: tuple[Rules, History]) -> None:
    rules, history = case
    history = ingested_with_batch(merge_equal_clocks(history))
    clocks = [batch.now_ms for batch in history]
    clock = build_clock((clocks, clocks, clocks), (clocks, clocks), until_ms=clocks[-1])
    replayed = archived_events._replay_devices(packed(history).to_batches(max_chunksize=7), clock, rules, StateLayout())
    batches = archived_events.record_batches(replayed, archived_events._CHANGE_SCHEMA)
    changes = [read_change(row) for batch in batches for row in batch.to_pylist()]
    assert session_rows(changes) == streamed_rows(rules, history)


def test_a_replay_leaves_heartbeats_out() -> None:
    rules = Rules()
    clock = MicroBatchClock(until_ms=10**9)
    changes = replay([(5_000, [start(1, 4_000)])], grid_for_key("d", rules.heartbeat_ms), rules, clock)
    assert [(change.kind, change.end_reason) for change in changes] == [
        (ChangeKind.STARTED, None),
        (ChangeKind.ENDED, "timed_out"),
    ]


@pytest.mark.parametrize(
    ("ingested_ms", "expected_ms"),
    [
        (100, 3_000),
        (2_999, 3_000),
        (3_200, 6_000),
        (3_499, 6_000),
        (3_500, 7_777),
        (7_700, 7_777),
        (8_500, 9_000),
        (9_200, 10_000),
    ],
)
def test_a_message_was_read_by_the_first_micro_batch_that_read_one_at_least_as_new(
    ingested_ms: int, expected_ms: int
) -> None:
    known = [3_000, 5_000, 6_000, 7_777, 9_000], [1, 0, 1, 1, 0]
    clock = build_clock(([7_777, 3_000], [3_500, 500], [4_000, 900]), known, until_ms=20_000)
    assert clock.of_messages(np.array([ingested_ms])).tolist() == [expected_ms]


def test_there_are_no_micro_batches_while_the_stream_was_down() -> None:
    clock = build_clock(([], [], []), ([3_000, 60_000], [0, 0]), until_ms=90_000)
    assert [clock.at_or_after(ms) for ms in (1_500, 2_900, 3_001, 60_001)] == [2_000, 3_000, 60_000, 61_000]


def test_a_message_older_than_the_pruned_tables_was_read_when_it_was_ingested() -> None:
    changed = [90_000], [80_000], [85_000]
    known = [90_000, 91_000], [2, 0]
    pruned, whole = (build_clock(changed, known, until_ms=91_000, is_whole=is_whole) for is_whole in (False, True))
    assert pruned.of_messages(np.array([5_500, 80_000])).tolist() == [6_000, 90_000]
    assert whole.of_messages(np.array([5_500, 80_000])).tolist() == [90_000, 90_000]
