"""Packed events in Arrow batches are replayed device by device: the same rows as the stream's."""

import dataclasses
from typing import Any

import pyarrow as pa
from hypothesis import given

from sessionization.core.events import Change, ChangeKind, EndReason
from sessionization.core.session_state import Rules
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.replay import archived_events
from sessionization.spark.replay.micro_batch_clock import build_clock
from tests.support.operator_engine import event_row
from tests.support.random_histories import Batch, History, histories, law_settings
from tests.support.reference import session_rows
from tests.support.replayed import any_rules, merge_equal_clocks, streamed_rows


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


@law_settings(300)
@given(any_rules, histories(max_batches=30, max_rows=4).filter(lambda history: any(batch.rows for batch in history)))
def test_a_replay_of_a_dirty_history_gives_the_streams_rows(rules: Rules, history: History) -> None:
    history = ingested_with_batch(merge_equal_clocks(history))
    clocks = [batch.now_ms for batch in history]
    clock = build_clock((clocks, clocks, clocks), (clocks, clocks), until_ms=clocks[-1])
    replayed = archived_events._replay_devices(packed(history).to_batches(max_chunksize=7), clock, rules, StateLayout())
    changes = [read_change(row) for batch in replayed for row in batch.to_pylist()]
    assert session_rows(changes) == streamed_rows(rules, history)
