"""The oracle of the end-to-end tests takes short cuts; it must give the results of the reference."""

import json
import random
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from sessionization.core.events import Change, ChangeKind, End, EndReason, Event, Platform, Start
from sessionization.core.session_state import Rules
from tests.support.checkpoints import batches_of
from tests.support.delta import Stored
from tests.support.grouping import group_of
from tests.support.oracle import QuickReference
from tests.support.reference import Reference, SessionRow, session_rows
from tests.support.taken_over import taken_over

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


def micro_batch_events(rng: random.Random, now_ms: int, sessions: range) -> list[tuple[str, Event]]:
    """Draws the events of a micro-batch, in which no End comes before its Start."""
    events: list[tuple[str, Event]] = []
    for session_id in rng.sample(sessions, 2):
        at_ms = now_ms - rng.randrange(0, 9_000, 500)
        kinds = [Start(session_id, at_ms, Platform.PC, now_ms), End(session_id, at_ms + 400, Platform.PC, now_ms)]
        events += [(f"d{session_id % 3}", kind) for kind in kinds[: rng.choice([1, 2])]]
    return events


@pytest.mark.parametrize("groups", [None, 2])
def test_sessions_taken_over_go_on_as_in_an_uninterrupted_job(groups: int | None) -> None:
    """This holds as long as no session was forgotten and no End is pending."""
    rules = replace(RULES, late_retention_ms=3_600_000, max_sessions_per_device=64)
    beats = 0
    for seed in range(6):
        rng = random.Random(seed)
        uninterrupted, now_ms = QuickReference(rules, groups), 1_000_000
        changes: list[tuple[str, Change]] = []
        for _ in range(BATCHES // 2):
            now_ms += rng.choice([300, 1_000, 2_500])
            changes += uninterrupted.micro_batch(now_ms, micro_batch_events(rng, now_ms, range(20)))
        newest_ms = max(change.processed_ms for _, change in changes)
        warm_started = QuickReference(rules, groups)
        warm_started.begin_with(taken_over(session_rows(changes), newest_ms, rules), newest_ms)
        now_ms += 7_000
        for _ in range(BATCHES // 2):
            events = micro_batch_events(rng, now_ms, range(30))
            expected = uninterrupted.micro_batch(now_ms, events)
            assert sorted(warm_started.micro_batch(now_ms, events), key=repr) == sorted(expected, key=repr)
            beats += sum(change.kind is ChangeKind.HEARTBEAT for _, change in expected)
            now_ms += rng.choice([300, 1_000, 2_500])
    assert beats > BATCHES


def test_sessions_taken_over_are_recent_bounded_and_not_later_than_the_live_one() -> None:
    rules = replace(RULES, max_sessions_per_device=3)

    def ended(started_ms: int | None, updated_ms: int) -> SessionRow:
        reason = EndReason.ORPHANED if started_ms is None else EndReason.REPORTED
        return SessionRow(None, Platform.PC, "ended", started_ms, 7_500, 500, 3, reason, 1, updated_ms)

    live = SessionRow("a", Platform.PC, "live", 7_000, None, None, None, None, 0, 7_200)
    rows = {
        ("d", 1): ended(1_000, 8_000),  # forgotten
        ("d", 2): ended(2_000, 8_001),  # one more than the bound
        ("d", 3): ended(3_000, 8_002),
        ("d", 4): live,
        ("d", 5): ended(None, 9_000),
        ("e", 1): ended(8_000, 9_000),
        ("e", 2): ended(6_000, 9_000),
        ("f", 1): replace(live, started_ms=8_999),
        ("f", 2): ended(9_000, 9_500),  # later than the device's live session
        ("d", 6): ended(4_000, 9_500),
    }
    found = {device.device_id: device for device in taken_over(rows, 10_000, rules)}
    closed = {name: [session.newest_change.session_id for session in device.closed] for name, device in found.items()}
    assert closed == {
        "d": [3, 6], "e": [2, 1], "f": []
    }  # fmt: skip
    assert {name: device.live.newest_change.session_id for name, device in found.items() if device.live} == {
        "d": 4,
        "f": 1,
    }
    assert found["d"].live is not None
    assert (found["d"].live.opened_ms, found["d"].closed[0].deadline_ms) == (7_200, 10_002)
