"""A replay makes no heartbeats, and knows the clock of each micro-batch of the stream."""

import numpy as np
import pytest

from sessionization.core.events import ChangeKind
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules
from sessionization.spark.replay.device_replay import replay
from sessionization.spark.replay.micro_batch_clock import MicroBatchClock, build_clock
from tests.support.histories import start


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
