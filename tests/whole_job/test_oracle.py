"""The oracle of the end-to-end tests takes short cuts; it must give the results of the reference."""

import json
import random
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sessionization.core.events import End, Platform, Start
from sessionization.core.session_state import Rules
from tests.support.checkpoints import batches_of
from tests.support.delta import Stored
from tests.support.grouping import group_of
from tests.support.oracle import QuickReference
from tests.support.reference import Reference

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=5_000, late_retention_ms=2_000, max_sessions_per_device=4)
HISTORIES = 100
BATCHES = 40


@pytest.mark.parametrize("groups", [None, 1, 2])
def test_the_quick_reference_agrees_with_the_reference(groups: int | None) -> None:
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        quick = QuickReference(RULES, groups)
        reference = Reference(RULES) if groups is None else Reference(RULES, partial(group_of, groups), is_grouped=True)
        now_ms = 1_000_000
        for _ in range(BATCHES):
            now_ms += rng.choice([1, 300, 1_000, 2_500, 9_000, -1_500 if seed % 2 else 1])
            events = []
            for _ in range(rng.randrange(5)):
                at_ms = now_ms - rng.randrange(0, 4_000, 500)
                kind = rng.choice([Start, End])
                events.append((f"d{rng.randrange(3)}", kind(rng.randrange(6), at_ms, Platform.PC, now_ms)))
            changes = quick.micro_batch(now_ms, events)
            assert sorted(changes, key=repr) == sorted(reference.micro_batch(now_ms, events), key=repr)
            assert (quick.timers, quick.remembered) == (reference.timers, reference.remembered)


def test_a_table_without_files_has_no_rows() -> None:
    assert list(Stored(pa.table({})).of("device_id")) == []


def log_micro_batches(query: Path, *logged: tuple[int, int]) -> None:
    """Writes Spark's logs of committed micro-batches, each with its clock and its number of state partitions."""
    for log in ("offsets", "commits"):
        (query / log).mkdir()
    for batch_id, (clock_ms, partitions) in enumerate(logged):
        conf = {"batchTimestampMs": clock_ms, "conf": {"spark.sql.shuffle.partitions": str(partitions)}}
        (query / "offsets" / str(batch_id)).write_text(f'v1\n{json.dumps(conf)}\n-\n{{"logOffset":0}}')
        (query / "commits" / str(batch_id)).write_text("v1\n{}")


def test_a_repartitioning_is_recognized_by_its_partitions(tmp_path: Path) -> None:
    log_micro_batches(tmp_path, (1_000, 2), (2_000, 2), (2_000, 5), (3_000, 5), (4_000, 3))
    assert [batch.is_repartitioning for batch in batches_of(tmp_path)] == [False, False, True, False, False]


def test_a_repeated_clock_is_refused(tmp_path: Path) -> None:
    log_micro_batches(tmp_path, (1_000, 2), (1_000, 2))
    with pytest.raises(AssertionError):
        batches_of(tmp_path)
