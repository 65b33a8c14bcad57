"""The processor under an in-memory engine with a manual clock, also with initial state."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pytest

from sessionization.core.events import Activity, Change, End, EndReason, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Closed, Live, Rules, RulesInForce, SessionState
from sessionization.spark.operator import group_store
from sessionization.spark.operator.output_rows import ACTIVITY_COUNTS
from sessionization.spark.operator.seed import unpack_seed
from sessionization.spark.operator.stored_entries import decode_entry, fields_of
from tests.support.grouping import group_of
from tests.support.operator_engine import NOW, RULES, Engine, changes_of, end, random_events, start
from tests.support.oracle import JobReference
from tests.support.oracle_columns import change_row
from tests.support.reference import Reference
from tests.support.reference_device import entries_of


def test_repeated_events_and_pending_ends_are_counted_without_a_change() -> None:
    engine = Engine(RULES)
    rows = engine.micro_batch(NOW, [end(1), end(1), ("d", Start(2, NOW, Platform.PC, NOW)), start(2)])
    assert [row["change"] for row in rows] == ["started"]
    assert (rows[0]["events"], rows[0]["duplicate_start"], rows[0]["duplicate_end"]) == (4, 1, 1)
    (row,) = engine.micro_batch(NOW + 1, [end(1)])
    assert row["change"] is None
    assert (row["events"], row["duplicate_end"]) == (1, 1)


def test_a_heartbeat_makes_two_state_calls_and_an_event_at_most_three() -> None:
    """Not counted: the call that sets the key, and the engine's delete of a fired timer.

    With them a heartbeat makes 4 calls, and an event at most 4.
    """
    engine = Engine(RULES)
    engine.micro_batch(NOW, [start(1)])
    assert engine.calls == {"iterator": 1, "updateValue": 1, "registerTimer": 1}
    engine.micro_batch(NOW + 1_000, [])
    assert engine.calls == {"iterator": 1, "registerTimer": 1}
    engine.micro_batch(NOW + 1_100, [start(1)])
    assert engine.calls == {"iterator": 1}
    engine.micro_batch(NOW + 1_200, [end(1)])
    assert engine.calls == {"iterator": 1, "updateValue": 1}
    engine.micro_batch(NOW + 1_300, [start(2, NOW + 1_300)])
    assert engine.calls == {"iterator": 1, "updateValue": 1, "registerTimer": 1}
    engine.micro_batch(NOW + 2_000, [])
    assert engine.calls == {"iterator": 1, "registerTimer": 1}


def test_without_signs_of_life_state_and_rows_are_those_of_before_there_were_any() -> None:
    events = [start(1), ("d", Start(2, NOW + 1, Platform.PC, NOW)), end(3, NOW + 2)]
    engine, grouped = Engine(RULES), Engine(RULES, device_groups=1)
    rows, in_group = engine.micro_batch(NOW, events), grouped.micro_batch(NOW, events, lambda _: "0")
    assert rows == in_group
    assert [row["change"] for row in rows] == ["started", "ended", "started"]
    assert {row["activity_counts"] for row in rows} == {None}
    assert engine.state("d") == {
        (1,): ("closed", "pc", None, NOW, None, NOW + 1, "superseded", 0, None, NOW, 0),
        (2,): ("live", "pc", None, NOW + 1, NOW, None, None, None, None, None, None),
        (3,): ("pending_end", "pc", None, None, None, NOW + 2, None, None, 3, NOW, 1),
    }
    (text,) = {value for (value,) in grouped.state("0").values()}
    assert text == (
        f'{{"d":[[1,"closed","pc",null,{NOW},null,{NOW + 1},"superseded",0,null,{NOW},0],'
        f'[2,"live","pc",null,{NOW + 1},{NOW}],'
        f'[3,"pending_end","pc",null,null,null,{NOW + 2},null,null,3,{NOW},1]]}}'
    )


LABELS = ("title", "order")


def random_history(
    seed: int, label_count: int = 0, kinds: Sequence[type[Event]] = (Start, End)
) -> Iterator[tuple[int, list[tuple[str, Event]]]]:
    """Micro-batches: each with its clock and its events."""
    rng = random.Random(seed)
    now_ms = NOW
    for _ in range(30):
        now_ms += rng.choice([1, 300, 1_000, 1_001, 2_500, 9_000])
        yield now_ms, random_events(rng, now_ms, label_count, kinds)


by_group = partial(group_of, 2)


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 150), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize(
    ("grouped", "most_recent", "read_alone"),
    [(False, 0, 0), (True, 1_024, 24), (True, 1, 24), (True, 1, 0), (True, 0, 0)],
)
def test_the_processor_equals_the_reference_on_dirty_histories(
    grouped, most_recent, read_alone, seeds, monkeypatch
) -> None:
    """Small limits for recent devices and for single bucket reads make groups take every path."""
    monkeypatch.setattr(group_store, "_MAX_RECENT_DEVICES", most_recent)
    monkeypatch.setattr(group_store, "_MAX_SINGLE_READS", read_alone)
    key_of = by_group if grouped else (lambda device_id: device_id)
    for seed in seeds:
        labels = LABELS[: seed % 3]
        engine = Engine(RULES, 2 if grouped else None, labels)
        reference = Reference(RULES, key_of, is_grouped=grouped)
        for now_ms, events in random_history(seed, len(labels)):
            rows = engine.micro_batch(now_ms, events, key_of)
            expected = Counter(change_row(*change, len(labels)) for change in reference.micro_batch(now_ms, events))
            assert changes_of(rows, len(labels)) == expected, (seed, now_ms)
            assert sum(row["events"] or 0 for row in rows) == len(events)
            for key in {key_of(f"d{n}") for n in range(3)}:
                assert engine.timers(key) == sorted(reference.timers.get(key, ())), (seed, now_ms, key)


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 250), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize(("grouped", "most_recent"), [(False, 0), (True, 1_024), (True, 0)])
def test_the_processor_equals_the_reference_with_activities(grouped, most_recent, seeds, monkeypatch) -> None:
    """The timeout is set after some micro-batches, and now and then another one, or none, for a while."""
    monkeypatch.setattr(group_store, "_MAX_RECENT_DEVICES", most_recent)
    key_of, seen = by_group if grouped else (lambda device_id: device_id), Counter[str]()
    for seed in seeds:
        labels = LABELS[: seed % 3]
        engine = Engine(RULES, 2 if grouped else None, labels)
        reference = Reference(RULES, key_of, is_grouped=grouped)
        for step, (now_ms, events) in enumerate(random_history(seed, len(labels), (Start, End, Activity, Activity))):
            if step % 5 == seed % 5:
                silence_ms = random.Random(seed + step).choice([None, 1_500, 3_000, 6_000])
                reference.rules = replace(RULES, inactivity_timeout_ms=silence_ms)
                engine.processor.in_force = RulesInForce(reference.rules)
            before = dict(reference.counters)
            rows, changes = engine.micro_batch(now_ms, events, key_of), reference.micro_batch(now_ms, events)
            expected = Counter(change_row(*change, len(labels)) for change in changes)
            assert changes_of(rows, len(labels)) == expected, (seed, now_ms)
            by_rules = Counter((device_id, change.due_ms, change.last_active_ms) for device_id, change in changes)
            shown = [(row["device_id"], row["due_ms"], row["last_active_ms"]) for row in rows if row["change"]]
            assert Counter(shown) == by_rules, (seed, now_ms)
            seen["last_active"] += sum(last_active_ms is not None for *_, last_active_ms in shown)
            counts = [json.loads(row["activity_counts"]) for row in rows if row["activity_counts"]]
            counted = dict(zip(ACTIVITY_COUNTS, map(sum, zip(*counts, strict=True)), strict=False))
            for name in ACTIVITY_COUNTS:
                assert counted.get(name, 0) == reference.counters[name] - before[name], (seed, now_ms, name)
            for key in {key_of(f"d{n}") for n in range(3)}:
                assert engine.timers(key) == sorted(reference.timers.get(key, ())), (seed, now_ms, key)
            seen.update(row["change"] for row in rows)
        seen.update(reference.counters)
    assert min(seen[name] for name in ("resumed", "last_active", *ACTIVITY_COUNTS)) > 10, seen


@pytest.mark.parametrize("groups", [None, 2])
def test_a_state_goes_on_when_label_columns_are_added(groups: int | None) -> None:
    """None, then one, then two of them: what was stored before has null in a column that came later."""
    key_of = by_group if groups else (lambda device_id: device_id)
    for seed in range(30):
        engine, reference = Engine(RULES, groups), Reference(RULES, key_of, is_grouped=groups is not None)
        for step, (now_ms, _) in enumerate(random_history(seed)):
            count = step // 10
            if step in {10, 20}:
                engine.go_on_with(LABELS[:count])
                for device in reference.devices():
                    for session in device.sessions():
                        labels = (*session.newest_change.labels, None)
                        session.newest_change = session.newest_change._replace(labels=labels)
                    for waiting in device.pending_ends:
                        waiting.end = replace(waiting.end, labels=(*waiting.end.labels, None))
            events = random_events(random.Random(seed * 100 + step), now_ms, count)
            rows = engine.micro_batch(now_ms, events, key_of)
            expected = Counter(change_row(*change, count) for change in reference.micro_batch(now_ms, events))
            assert changes_of(rows, count) == expected, (seed, now_ms)


@pytest.mark.parametrize(
    ("status", "reason", "problem"),
    [("paused", None, "'paused' is not a valid status"), (None, None, "None"), ("closed", "crashed", "'crashed'")],
)
def test_the_error_for_an_entry_of_another_version_names_the_remedy(
    status: str | None, reason: str | None, problem: str
) -> None:
    value = (status, "pc", None, 1, 1, 2, reason, 0, None, 3, 0)
    with pytest.raises(ValueError, match=f"{problem}.*restore a backup"):
        decode_entry(value)


@pytest.mark.parametrize(("groups", "key"), [(None, "d"), (1, "0")])
def test_a_clock_that_is_put_back_loses_no_session_and_beats_no_instant_twice(groups: int | None, key: str) -> None:
    rules = replace(RULES, session_timeout_ms=60_000)
    at_ms, ahead_ms = grid_for_key(key, rules.heartbeat_ms).after(1_000_000), 20_000
    engine = Engine(rules, groups)
    beats: list[tuple[int, int]] = []

    def play(now_ms: int, *events: tuple[str, Event]) -> list[str]:
        rows = engine.micro_batch(now_ms, events, (lambda _: key) if groups else (lambda device_id: device_id))
        beats.extend((row["session_id"], row["due_ms"]) for row in rows if row["change"] == "heartbeat")
        return [row["change"] for row in rows if row["change"] != "heartbeat"]

    assert play(at_ms, start(1, at_ms), ("ends", Start(2, at_ms, Platform.PC, at_ms))) == ["started", "started"]
    play(at_ms + ahead_ms)
    assert play(at_ms + 500, ("new", Start(3, at_ms, Platform.PC, at_ms))) == ["started"]
    assert play(at_ms + 600, ("ends", End(2, at_ms + 600, Platform.PC, at_ms))) == ["ended"]
    for now_ms in range(at_ms + 700, at_ms + ahead_ms + 5_000, 700):
        assert play(now_ms) == []
    assert len(beats) == len(set(beats))
    newest = {session_id: max(due_ms for number, due_ms in beats if number == session_id) for session_id in (1, 3)}
    assert min(newest.values()) > at_ms + ahead_ms + 3_000, "all live sessions beat on"
    assert play(at_ms + ahead_ms + 5_000, end(1, at_ms + 30_000)) == ["ended"]


def test_a_timer_that_older_rules_set_beats_no_instant_twice() -> None:
    engine = Engine(RULES)
    engine.micro_batch(NOW, [start(1), end(1)])
    assert engine.timers("d") == [NOW + 2_000]
    engine.processor.in_force = RulesInForce(replace(RULES, late_retention_ms=60_000))
    engine.micro_batch(NOW + 100, [start(2, NOW + 100)])
    assert engine.timers("d") == [NOW + 1_000, NOW + 2_000]
    rows = engine.micro_batch(NOW + 4_000, [])
    assert [(row["change"], row["beat"], row["missed_beats"]) for row in rows] == [("heartbeat", 4, 3)]
    assert engine.timers("d") == [NOW + 5_000]


@pytest.mark.parametrize(("groups", "key"), [(None, "d"), (1, "0")])
def test_a_new_session_beats_at_once_after_the_late_retention_was_shortened(groups: int | None, key: str) -> None:
    at_ms = grid_for_key(key, RULES.heartbeat_ms).after(1_000_000)
    engine = Engine(replace(RULES, late_retention_ms=600_000), groups)

    def play(now_ms: int, *events: tuple[str, Event]) -> list[str]:
        rows = engine.micro_batch(now_ms, events, (lambda _: key) if groups else (lambda device_id: device_id))
        return [row["change"] for row in rows]

    assert play(at_ms, start(1, at_ms), end(1, at_ms)) == ["started", "ended"]
    assert play(at_ms + 1_000) == []
    engine.processor.in_force = RulesInForce(RULES)
    assert play(at_ms + 30_300, start(2, at_ms + 30_000))[:1] == ["started"]
    assert play(at_ms + 31_000) == ["heartbeat"]
    assert play(at_ms + 32_000) == ["heartbeat"]


@pytest.mark.parametrize("device_groups", [None, 1])
def test_the_error_for_unreadable_state_names_the_device(device_groups: int | None) -> None:
    engine = Engine(RULES, device_groups)
    key_of = (lambda device_id: device_id) if device_groups is None else (lambda _: "0")
    engine.micro_batch(NOW, [start(1)], key_of)
    [[map_key, value]] = engine.state(key_of("d")).items()
    broken = tuple(field.replace("live", "paused") if isinstance(field, str) else field for field in value)
    engine.state(key_of("d"))[map_key] = broken
    with pytest.raises(Exception, match=r"device 'd': a state entry cannot be read \('paused' .* restore a backup"):
        engine.micro_batch(NOW + 100, [end(1)], key_of)


SEED_RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=60_000, late_retention_ms=2_000)


def seed_of(after_ms: int, sessions: list[tuple[str, int, SessionState]]) -> str:
    entries = [
        {"device_id": device_id, "session_id": session_id} | fields_of(entry)
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
        labels = LABELS[: history % 3]
        previous, changes = JobReference(SEED_RULES, groups), list[tuple[str, Change]]()
        for _ in range(20):
            changes += previous.micro_batch(now_ms, random_events(rng, now_ms, len(labels)))
            now_ms += rng.choice([300, 1_000, 2_500])
        newest_ms = max(change.processed_ms for _, change in changes)
        oracle, engine = JobReference(SEED_RULES, groups), Engine(SEED_RULES, groups, labels)
        entries_by_key = defaultdict(list)
        for device in previous.devices():
            entries = entries_of(device, SEED_RULES)
            entries_by_key[key_of(device.device_id)] += [(device.device_id, *entry) for entry in entries.items()]
        reasons |= {
            entry.reason for entries in entries_by_key.values() for _, _, entry in entries if isinstance(entry, Closed)
        }
        oracle.begin_with(previous.devices(), newest_ms)
        for key, entries in entries_by_key.items():
            engine.begin_with(key, seed_of(newest_ms, entries))
        now_ms += 3_000
        for _ in range(10):
            batch = random_events(rng, now_ms, len(labels))
            expected = Counter(change_row(*change, len(labels)) for change in oracle.micro_batch(now_ms, batch))
            assert changes_of(engine.micro_batch(now_ms, batch, key_of), len(labels)) == expected
            assert {key: engine.timers(key) for key in oracle.timers} == {
                key: sorted(timers_ms) for key, timers_ms in oracle.timers.items()
            }
            now_ms += rng.choice([300, 1_000, 2_500])
    assert reasons == {EndReason.REPORTED, EndReason.SUPERSEDED}, "none is orphaned: its Start is known"
