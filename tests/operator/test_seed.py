"""A processor with initial state: no second Start, heartbeats continue, Ends find their sessions."""

import json
import random
from collections import defaultdict
from functools import partial

import pytest

from sessionization.core.events import Change, End, EndReason, Event, Platform, Start
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, SessionState
from sessionization.spark.operator.seed import unpack_seed
from sessionization.spark.operator.stored_entries import STATE_SCHEMA, encode_entry
from tests.support.grouping import group_of
from tests.support.operator_engine import Engine
from tests.support.oracle import COLUMNS, QuickReference, change_row
from tests.support.reference import Device

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=60_000, late_retention_ms=2_000)


def seed(after_ms: int, **sessions: SessionState) -> str:
    return seed_of(after_ms, [("d", int(name[1:]), entry) for name, entry in sessions.items()])


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
    assert unpack_seed(seed(5, s7=live, s8=live)) == (5, {"d": {7: live, 8: live}})


def entries_of(device: Device) -> list[tuple[str, int, SessionState]]:
    """Convert a device that the end-to-end oracle takes over into state entries."""
    entries: list[tuple[str, int, SessionState]] = []
    if device.live is not None:
        last = device.live.newest_change
        live = Live(device.live.started_ms, device.live.opened_ms, last.account_id, last.platform)
        entries.append((device.device_id, last.session_id, live))
    for position, session in enumerate(device.closed):
        last = session.newest_change
        closed_ms = session.deadline_ms - RULES.late_retention_ms
        end = last.ended_ms, last.end_reason, last.revision, last.foreground_s, last.account_id, last.platform
        entries.append((device.device_id, last.session_id, Closed(session.started_ms, *end, closed_ms, position)))
    for position, waiting in enumerate(device.pending_ends, len(device.closed)):
        end, seen_ms = waiting.end, waiting.deadline_ms - RULES.late_retention_ms
        pending = PendingEnd(end.at_ms, end.foreground_s, end.account_id, end.platform, seen_ms, position)
        entries.append((device.device_id, end.session_id, pending))
    return entries


def random_events(rng: random.Random, now_ms: int) -> list[tuple[str, Event]]:
    drawn = [(rng.randrange(3), rng.choice([Start, End]), rng.randrange(6)) for _ in range(rng.randrange(5))]
    return [
        (f"d{device}", kind(session, now_ms - rng.randrange(0, 4_000, 500), Platform.PC, now_ms))
        for device, kind, session in drawn
    ]


@pytest.mark.parametrize("groups", [None, 2])
def test_a_seeded_processor_equals_the_seeded_oracle_of_the_end_to_end_tests(groups: int | None) -> None:
    """Histories before the seed include forgotten sessions that came again, pending Ends and orphaned Ends."""
    key_of = (lambda device_id: device_id) if groups is None else partial(group_of, groups)
    reasons = set()
    for history in range(25):
        rng = random.Random(history)
        now_ms = 1_000_000
        previous, changes = QuickReference(RULES, groups), list[tuple[str, Change]]()
        for _ in range(20):
            changes += previous.micro_batch(now_ms, random_events(rng, now_ms))
            now_ms += rng.choice([300, 1_000, 2_500])
        newest_ms = max(change.processed_ms for _, change in changes)
        devices = list(previous.remembered.values())
        oracle, engine = QuickReference(RULES, groups), Engine(RULES, groups)
        entries_by_key = defaultdict(list)
        for device in devices:
            entries_by_key[key_of(device.device_id)] += entries_of(device)
        reasons |= {
            entry.reason for entries in entries_by_key.values() for _, _, entry in entries if isinstance(entry, Closed)
        }
        oracle.begin_with(devices, newest_ms)
        for key, entries in entries_by_key.items():
            engine.begin_with(key, seed_of(newest_ms, entries))
        now_ms += 3_000
        for _ in range(10):
            batch = random_events(rng, now_ms)
            expected = [change_row(*change) for change in oracle.micro_batch(now_ms, batch)]
            found = [row for row in engine.micro_batch(now_ms, batch, key_of) if row["change"]]
            assert sorted(
                tuple(map(str, (row[name] for name in COLUMNS["session_changes"][:-1]))) for row in found
            ) == sorted(tuple(map(str, row[:-1])) for row in expected)
            assert {key: engine.timers(key) for key in oracle.timers} == {
                key: sorted(timers_ms) for key, timers_ms in oracle.timers.items()
            }
            now_ms += rng.choice([300, 1_000, 2_500])
    assert reasons == {EndReason.REPORTED, EndReason.SUPERSEDED}, "none is orphaned: its Start is known"
