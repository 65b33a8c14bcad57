"""The processor under an in-memory engine with a manual clock."""

import json
import random
from dataclasses import replace
from functools import partial

import pytest

from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.spark.operator import bucket, group_store
from sessionization.spark.operator.codec import OUTPUT_SCHEMA, decode_entry, encode_entry
from sessionization.spark.operator.session_store import STATE_NAME
from tests.core.reference import Reference
from tests.operator.engine import Engine
from tests.whole_job.grouping import group_of

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=5_000, late_retention_ms=2_000, max_sessions_per_device=4)
GRID = grid_for_key("d", RULES.heartbeat_ms)
NOW = GRID.after(1_000_000)
"""An instant of device d's grid; the next instants follow one second apart."""
BUCKETS = 64


def start(session_id: int, at_ms: int = NOW) -> tuple[str, Event]:
    return "d", Start(session_id, at_ms, Platform.PC, at_ms)


def end(session_id: int, at_ms: int = NOW) -> tuple[str, Event]:
    return "d", End(session_id, at_ms, Platform.PC, at_ms, foreground_s=3)


def test_a_key_has_one_timer_while_it_has_state_and_none_afterwards() -> None:
    engine = Engine(RULES)
    engine.micro_batch(NOW, [start(1)])
    assert engine.timers("d") == [NOW + 1_000]
    engine.micro_batch(NOW + 100, [end(1)])
    assert engine.timers("d") == [NOW + 3_000]
    engine.micro_batch(NOW + 3_000, [])
    assert engine.timers("d") == []
    assert engine.state("d") == {}


def test_a_due_timer_fires_after_the_events_and_leaves_one_timer() -> None:
    engine = Engine(RULES)
    engine.micro_batch(NOW, [start(1)])
    rows = engine.micro_batch(NOW + 1_000, [end(1)])
    assert [row["change"] for row in rows] == ["ended"]
    assert engine.timers("d") == [NOW + 3_000]


def test_a_device_with_events_in_every_micro_batch_still_beats_and_times_out() -> None:
    engine = Engine(RULES)
    changes = [
        row["change"]
        for step in range(6)
        for row in engine.micro_batch(NOW + step * 1_000, [start(1)])
        if row["change"] is not None
    ]
    assert changes == ["started", *["heartbeat"] * 4, "ended"]


def test_repeated_events_and_pending_ends_are_counted_without_a_change() -> None:
    engine = Engine(RULES)
    rows = engine.micro_batch(NOW, [end(1), end(1), ("d", Start(2, NOW, Platform.PC, NOW)), start(2)])
    assert [row["change"] for row in rows] == ["started"]
    assert (rows[0]["events"], rows[0]["duplicate_start"], rows[0]["duplicate_end"]) == (4, 1, 1)
    (row,) = engine.micro_batch(NOW + 1, [end(1)])
    assert row["change"] is None
    assert (row["events"], row["duplicate_end"]) == (1, 1)


def test_a_heartbeat_makes_two_state_calls_and_an_event_at_most_four() -> None:
    """Not counted: the call that sets the key, and the engine's delete of a fired timer.

    With them a heartbeat makes 4 calls, and an event at most 5.
    """
    engine = Engine(RULES)
    engine.micro_batch(NOW, [start(1)])
    assert engine.calls == {"iterator": 1, "updateValue": 1, "registerTimer": 1}
    engine.micro_batch(NOW + 1_000, [])
    assert engine.calls == {"iterator": 1, "registerTimer": 1}
    engine.micro_batch(NOW + 1_100, [start(1)])
    assert engine.calls == {"iterator": 1}
    engine.micro_batch(NOW + 1_200, [end(1)])
    assert engine.calls == {"iterator": 1, "updateValue": 1, "deleteTimer": 1, "registerTimer": 1}


def test_an_event_reads_its_own_bucket_of_a_group_and_a_heartbeat_reads_the_whole_group() -> None:
    """While another device of its bucket is live, an event reads only the recent devices and this bucket.

    A heartbeat reads the whole group in one call.
    """
    engine = Engine(RULES, 1)
    others = [(f"other {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(500)]

    def calls(now_ms: int, *events: tuple[str, Event]) -> dict[str, int]:
        engine.micro_batch(now_ms, events, lambda _: "0")
        return engine.calls

    at_ms = grid_for_key("0", RULES.heartbeat_ms).after(NOW)
    assert calls(at_ms, *others) == {"iterator": 1, "updateValue": 1, "registerTimer": 1}
    assert calls(at_ms + 1, start(1)) == {"getValue": 2, "updateValue": 1}
    assert calls(at_ms + 2, start(1)) == {"getValue": 1}
    assert calls(at_ms + 1_000) == {"iterator": 1, "updateValue": BUCKETS, "removeKey": 1, "registerTimer": 1}
    assert calls(at_ms + 1_001, end(1)) == {"getValue": 2, "updateValue": 1}
    assert calls(at_ms + 2_000) == {"iterator": 1, "updateValue": 1, "removeKey": 1, "registerTimer": 1}
    assert calls(at_ms + 3_000) == {"iterator": 1, "registerTimer": 1}


def test_an_event_that_sees_no_other_live_session_reads_the_whole_group() -> None:
    """Its timer needs it: the next grid instant if any session of the group is live, a later one if none is."""
    engine = Engine(RULES, 1)
    engine.micro_batch(
        NOW, [start(1), *((f"far {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(2))], lambda _: "0"
    )
    (timer_ms,) = engine.timers("0")
    engine.micro_batch(NOW + 1, [end(1)], lambda _: "0")
    assert engine.calls == {"getValue": 1, "updateValue": 1}
    assert engine.timers("0") == [timer_ms]
    engine.micro_batch(timer_ms, [], lambda _: "0")
    engine.micro_batch(timer_ms + 1, [start(2), end(2)], lambda _: "0")
    assert engine.calls == {"getValue": 2, "updateValue": 1, "iterator": 1}
    assert engine.timers("0") == [timer_ms + RULES.heartbeat_ms]


def test_when_too_many_devices_are_recent_each_bucket_is_written_once() -> None:
    engine = Engine(RULES, 1)
    starts = [(f"device {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(1_200)]
    engine.micro_batch(NOW, starts[:1_000], lambda _: "0")
    assert {tuple(key) for key in engine.state("0")} == {(-1,)}
    engine.micro_batch(NOW + 1, starts[1_000:], lambda _: "0")
    assert engine.calls == {"iterator": 1, "updateValue": BUCKETS, "removeKey": 1}
    assert {tuple(key) for key in engine.state("0")} == {(bucket,) for bucket in range(BUCKETS)}
    engine.micro_batch(NOW + 2, starts, lambda _: "0")
    assert engine.calls == {"iterator": 1}
    engine.micro_batch(NOW + 10_000, [], lambda _: "0")
    assert engine.calls["updateValue"] == BUCKETS
    assert {entry[1] for entry in stored(engine)} == {"closed"}
    engine.micro_batch(NOW + 20_000, [], lambda _: "0")
    assert engine.calls["removeKey"] == BUCKETS
    assert engine.state("0") == {}


def stored(engine: Engine) -> list[list]:
    """All entries in the state of the group."""
    buckets = (json.loads(text) for (text,) in engine.state("0").values())
    return [entry for bucket in buckets for entries in bucket.values() for entry in entries]


def random_histories(seed: int):
    """Micro-batches (clock, events) of three devices; few ids and few instants make events collide."""
    rng = random.Random(seed)
    now_ms = NOW
    for _ in range(30):
        now_ms += rng.choice([1, 300, 1_000, 1_001, 2_500, 9_000])
        events = []
        for _ in range(rng.randrange(5)):
            at_ms = now_ms - rng.randrange(0, 4_000, 500)
            kind = rng.choice([Start, End])
            events.append((f"d{rng.randrange(3)}", kind(rng.randrange(6), at_ms, rng.choice(list(Platform)), now_ms)))
        yield now_ms, events


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
        engine = Engine(RULES, 2 if grouped else None)
        reference = Reference(RULES, key_of)
        for now_ms, events in random_histories(seed):
            rows = engine.micro_batch(now_ms, events, key_of)
            expected = reference.micro_batch(now_ms, events)
            assert changes_of_rows(rows) == sorted(map(as_row, expected), key=repr), (seed, now_ms)
            assert sum(row["events"] or 0 for row in rows) == len(events)
            for key in {key_of(f"d{n}") for n in range(3)}:
                timer_ms = reference.timers.get(key)
                assert engine.timers(key) == ([] if timer_ms is None else [timer_ms]), (seed, now_ms, key)


CHANGE_COLUMNS = [
    name for name in OUTPUT_SCHEMA.names if not name.startswith(("events", "duplicate", "evicted", "entries"))
]


def changes_of_rows(rows):
    return sorted((tuple(row[name] for name in CHANGE_COLUMNS) for row in rows if row["change"]), key=repr)


def as_row(device_and_change):
    device_id, change = device_and_change
    return (
        device_id, change.session_id, change.account_id, change.platform.value, change.kind.value,
        None if change.end_reason is None else change.end_reason.value, change.revision, change.started_ms,
        change.ended_ms, change.duration_ms, change.foreground_s, change.beat, change.missed_beats, change.due_ms,
        change.event_ms, change.ingested_ms, change.processed_ms,
    )  # fmt: skip


def test_every_kind_of_state_entry_is_unchanged_after_encoding_and_decoding() -> None:
    engine = Engine(RULES)
    engine.micro_batch(NOW, [start(1), end(1, NOW + 5), start(2, NOW + 10), end(9, NOW)])
    entries = [decode_entry(value) for value in engine.state("d").values()]
    assert {type(entry).__name__ for entry in entries} == {"Live", "Closed", "PendingEnd"}
    assert [decode_entry(encode_entry(entry)) for entry in entries] == entries


def test_a_group_without_a_live_session_forgets_each_device_at_its_own_deadline() -> None:
    engine = Engine(RULES, 1)
    in_one_group = lambda _: "0"  # noqa: E731
    grid = grid_for_key("0", RULES.heartbeat_ms)
    now = grid.after(NOW)
    for name, at_ms in (("early", now), ("late", now + 1_500)):
        events = Start(1, at_ms, Platform.PC, at_ms), End(1, at_ms, Platform.PC, at_ms, foreground_s=3)
        engine.micro_batch(at_ms, [(name, event) for event in events], in_one_group)
    assert engine.timers("0") == [now + 2_000]
    engine.micro_batch(now + 2_000, [], in_one_group)
    assert engine.timers("0") == [now + 4_000]
    assert engine.state("0") != {}
    engine.micro_batch(now + 4_000, [], in_one_group)
    assert engine.timers("0") == []
    assert engine.state("0") == {}


@pytest.mark.parametrize(
    ("status", "reason", "problem"),
    [("paused", None, "'paused' is not a valid status"), (None, None, "None"), ("closed", "crashed", "'crashed'")],
)
def test_the_error_for_an_entry_of_another_version_names_the_remedy(
    status: str | None, reason: str | None, problem: str
) -> None:
    value = (status, "pc", None, 1, 1, 2, reason, 0, None, 3, 0)
    with pytest.raises(ValueError, match=f"{problem}.*another version wrote it; deploy that version again"):
        decode_entry(value)


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


@pytest.mark.parametrize("device_groups", [None, 1])
def test_the_error_for_unreadable_state_names_the_device(device_groups: int | None) -> None:
    engine = Engine(RULES, device_groups)
    key_of = (lambda device_id: device_id) if device_groups is None else (lambda _: "0")
    engine.micro_batch(NOW, [start(1)], key_of)
    [[map_key, value]] = engine.state(key_of("d")).items()
    broken = tuple(field.replace("live", "paused") if isinstance(field, str) else field for field in value)
    engine.tester.updateMapState(STATE_NAME, key_of("d"), {map_key: broken})
    with pytest.raises(Exception, match=r"device 'd': a state entry cannot be read \('paused' .* deploy that version"):
        engine.micro_batch(NOW + 100, [end(1)], key_of)


@pytest.mark.parametrize("broken", [0, 1])
def test_the_error_for_a_broken_bucket_names_no_device(broken: int) -> None:
    """One of two buckets is broken, the first or the second that the timer reads."""
    engine = Engine(RULES, 1)
    engine.micro_batch(NOW, [start(1)], lambda _: "0")
    (timer_ms,) = engine.timers("0")
    texts = ['{"a":[[1,"live","pc",null,1,2]]}'] * 2
    texts[broken] = '{"a":[[1,"li}'
    engine.tester.updateMapState(STATE_NAME, "0", {(number,): (text,) for number, text in enumerate(texts)})
    with pytest.raises(Exception, match=f"(?<!: )group 0, bucket {broken} of the state cannot be read"):
        engine.micro_batch(timer_ms, [], lambda _: "0")


def test_an_event_that_sees_a_recent_live_session_parses_no_bucket(monkeypatch) -> None:
    engine = Engine(RULES, 1)
    engine.micro_batch(NOW, [start(1), end(1)], lambda _: "0")
    (timer_ms,) = engine.timers("0")
    engine.micro_batch(timer_ms, [], lambda _: "0")
    assert {tuple(key) for key in engine.state("0")} != {(-1,)}
    engine.micro_batch(timer_ms + 1, [("other", Start(2, NOW, Platform.PC, NOW))], lambda _: "0")
    parsed = []
    original = bucket.Bucket.devices
    monkeypatch.setattr(bucket.Bucket, "devices", lambda self: parsed.append(self._name) or original(self))
    engine.micro_batch(timer_ms + 2, [end(1)], lambda _: "0")
    assert engine.calls["getValue"] == 2
    assert parsed == ["group 0, bucket -1"]


def test_a_group_counts_its_entries_when_its_timer_fires() -> None:
    """Counts live, closed and pending entries after the timer.

    With one device per key nothing is counted, because a row of state is an entry.
    """
    engine = Engine(RULES, 1)
    others = [(f"other {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(500)]
    at_ms = grid_for_key("0", RULES.heartbeat_ms).after(NOW)

    def counted(now_ms: int, *events: tuple[str, Event]) -> dict[str, int]:
        engine.micro_batch(now_ms, events, lambda _: "0")
        return engine.entries

    assert counted(at_ms, *others, start(1), end(9)) == {}
    assert counted(at_ms + 1_000) == {"0": 502}
    assert counted(at_ms + 1_001, end(1)) == {}
    assert counted(at_ms + 2_000) == {"0": 501}, "the End that waited is forgotten, what was closed is not"
    assert counted(at_ms + 4_000) == {"0": 500}
    by_device = Engine(RULES)
    by_device.micro_batch(NOW, [start(1)])
    by_device.micro_batch(NOW + 1_000, [])
    assert by_device.entries == {}
