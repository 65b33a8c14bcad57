"""A processor with initial state: no second Start, heartbeats continue, Ends find their sessions."""

import json
import random
from collections import Counter, defaultdict
from functools import partial

import pytest

from sessionization.core.events import Change, EndReason, Platform
from sessionization.core.session_state import Closed, Live, Rules, SessionState
from sessionization.spark.operator.seed import unpack_seed
from sessionization.spark.operator.stored_entries import STATE_SCHEMA, encode_entry
from tests.support.grouping import group_of
from tests.support.operator_engine import Engine, changes_of, random_events
from tests.support.oracle import JobReference, change_row
from tests.support.reference import entries_of

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=60_000, late_retention_ms=2_000)


def seed_of(after_ms: int, sessions: list[tuple[str, int, SessionState]]) -> str:
    entries = [
        {"device_id": device_id, "session_id": session_id}
        | dict(zip(STATE_SCHEMA.names, encode_entry(entry), strict=True))
        for device_id, session_id, entry in sessions
    ]
    # Spark leaves out null fields.
    not_null = [{name: value for name, value in entry.items() if value is not None} for entry in entries]
    return json.dumps({"after_ms": after_ms, "entries": not_null})


def test_a_seed_holds_its_instant_and_the_sessions_of_each_device() -> None:
    live = Live(1, 2, None, Platform.CONSOLE)
    assert unpack_seed(seed_of(5, [("d", 7, live), ("d", 8, live)])) == (5, {"d": {7: live, 8: live}})


@pytest.mark.parametrize("groups", [None, 2])
def test_a_seeded_processor_equals_the_seeded_oracle_of_the_end_to_end_tests(groups: int | None) -> None:
    """Histories before the seed include forgotten sessions that came again, pending Ends and orphaned Ends."""
    key_of = (lambda device_id: device_id) if groups is None else partial(group_of, groups)
    reasons = set()
    for history in range(25):
        rng = random.Random(history)
        now_ms = 1_000_000
        previous, changes = JobReference(RULES, groups), list[tuple[str, Change]]()
        for _ in range(20):
            changes += previous.micro_batch(now_ms, random_events(rng, now_ms))
            now_ms += rng.choice([300, 1_000, 2_500])
        newest_ms = max(change.processed_ms for _, change in changes)
        oracle, engine = JobReference(RULES, groups), Engine(RULES, groups)
        entries_by_key = defaultdict(list)
        for device in previous.devices():
            entries = entries_of(device, RULES)
            entries_by_key[key_of(device.device_id)] += [(device.device_id, *entry) for entry in entries.items()]
        reasons |= {
            entry.reason for entries in entries_by_key.values() for _, _, entry in entries if isinstance(entry, Closed)
        }
        oracle.begin_with(previous.devices(), newest_ms)
        for key, entries in entries_by_key.items():
            engine.begin_with(key, seed_of(newest_ms, entries))
        now_ms += 3_000
        for _ in range(10):
            batch = random_events(rng, now_ms)
            expected = Counter(change_row(*change)[:-1] for change in oracle.micro_batch(now_ms, batch))
            assert changes_of(engine.micro_batch(now_ms, batch, key_of)) == expected
            assert {key: engine.timers(key) for key in oracle.timers} == {
                key: sorted(timers_ms) for key, timers_ms in oracle.timers.items()
            }
            now_ms += rng.choice([300, 1_000, 2_500])
    assert reasons == {EndReason.REPORTED, EndReason.SUPERSEDED}, "none is orphaned: its Start is known"
