"""Both stores hold what was stored, in whatever order they are called; a group reads and writes few buckets."""

import json
import random
from typing import Any

import pytest

from sessionization.core.events import Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator import group_store
from sessionization.spark.operator.group_store import GroupStore
from sessionization.spark.operator.session_store import DeviceStore, SessionStore
from tests.support.operator_engine import NOW, RULES, Engine, Handle, end, start

LIVE = ("live", "pc", None, 1, 2, None, None, None, None, None, None)
CLOSED = ("closed", "pc", None, 1, None, 3, "reported", 0, None, 4, 0)
LAYOUTS = pytest.mark.parametrize("groups", [None, 1])


def store_of(handle: Handle, groups: int | None) -> SessionStore:
    handle.key = "d0"
    return DeviceStore(handle, StateLayout()) if groups is None else GroupStore(handle, StateLayout(groups))


def entries(stored: Any, device_id: str) -> dict[int, str]:
    """The status of a device's stored entries, by session id."""
    return {entry[0]: entry[1] for entry in (stored or {}).get(device_id, ())}


@LAYOUTS
def test_nothing_is_stored_at_first_and_after_the_last_entry_was_removed(groups: int | None) -> None:
    handle = Handle()
    store = store_of(handle, groups)
    assert store.load("d0", ["d0"]) is None
    store.store("d0", {"d0": {1: LIVE}})
    assert entries(store.load("d0", ["d0"]), "d0") == {1: "live"}
    store.load_all("d0")
    store.store("d0", {"d0": {1: None}})
    assert store.load("d0", ["d0"]) is None
    assert handle.maps["d0"] == {}


def test_a_group_in_which_another_device_is_stored_is_not_empty() -> None:
    store = store_of(Handle(), 1)
    store.store("d0", {"d0": {1: LIVE}})
    assert store.load("d0", ["another"]) is not None


@LAYOUTS
@pytest.mark.parametrize(("most_recent", "single_reads"), [(1_024, 24), (1, 24), (1, 0), (0, 0)])
def test_a_store_equals_a_dictionary_in_whatever_order_it_is_called(
    groups: int | None, most_recent: int, single_reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `store` may come without a load, or after one of other devices."""
    monkeypatch.setattr(group_store, "_MAX_RECENT_DEVICES", most_recent)
    monkeypatch.setattr(group_store, "_MICRO_BATCHES_RECENT", 0)
    monkeypatch.setattr(group_store, "_MAX_SINGLE_READS", single_reads)
    devices = ["d0"] if groups is None else [f"d{n}" for n in range(5)]
    for seed in range(200):
        rng = random.Random(seed)
        store = store_of(Handle(), groups)
        expected: dict[str, dict[int, str]] = {device_id: {} for device_id in devices}
        for _ in range(12):
            called = rng.choice(["load", "load_all", "store"])
            chosen = rng.sample(devices, rng.randint(1, len(devices)))
            if called == "load":
                stored = store.load("d0", chosen)
                assert {device_id: entries(stored, device_id) for device_id in chosen} == {
                    device_id: expected[device_id] for device_id in chosen
                }
                assert stored is not None or not any(expected.values())
            elif called == "load_all":
                stored = store.load_all("d0")
                assert {device_id: entries(stored, device_id) for device_id in devices} == expected
            else:
                updates: dict[str, dict[int, Any]] = {}
                for device_id in chosen:
                    removed = set(rng.sample(sorted(expected[device_id]), len(expected[device_id]) // 2))
                    kept = [n for n in range(3) if n not in removed]
                    written = {n: rng.choice([LIVE, CLOSED]) for n in kept if rng.random() < 0.5}
                    if updated := written | dict.fromkeys(removed):
                        updates[device_id] = updated
                    expected[device_id] |= {n: value[0] for n, value in written.items()}
                    for n in removed:
                        del expected[device_id][n]
                store.store("d0", updates)


BUCKETS = 64
"""Written out, because it must never change: checkpoints are stored with it."""


def test_an_event_reads_its_own_bucket_of_a_group_and_a_heartbeat_reads_the_whole_group() -> None:
    """An event reads only the recent devices and its bucket, a heartbeat reads the whole group in one call."""
    engine = Engine(RULES, 1)
    others = [(f"other {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(500)]

    def calls(now_ms: int, *events: tuple[str, Event]) -> dict[str, int]:
        engine.micro_batch(now_ms, events, lambda _: "0")
        return engine.calls

    at_ms = grid_for_key("0", RULES.heartbeat_ms).after(NOW)
    assert calls(at_ms, *others) == {"iterator": 1, "updateValue": 1, "registerTimer": 1}
    assert calls(at_ms + 1, start(1)) == {"getValue": 2, "updateValue": 1}
    assert calls(at_ms + 2, start(1)) == {"getValue": 1}
    assert calls(at_ms + 1_000) == {"iterator": 1, "updateValue": BUCKETS + 1, "registerTimer": 1}
    assert calls(at_ms + 1_001, end(1)) == {"getValue": 2, "updateValue": 1}
    assert calls(at_ms + 2_000) == {"iterator": 1, "updateValue": 2, "registerTimer": 1}
    assert calls(at_ms + 3_000) == {"iterator": 1, "registerTimer": 1}


def test_when_too_many_devices_are_recent_each_bucket_is_written_once() -> None:
    engine = Engine(RULES, 1)
    starts = [(f"device {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(1_200)]
    engine.micro_batch(NOW, starts[:1_000], lambda _: "0")
    assert {tuple(key) for key in engine.state("0")} == {(-1,)}
    engine.micro_batch(NOW + 1, starts[1_000:], lambda _: "0")
    assert engine.calls == {"iterator": 1, "updateValue": BUCKETS + 1}
    assert {tuple(key) for key in engine.state("0")} == {(bucket,) for bucket in range(-1, BUCKETS)}
    engine.micro_batch(NOW + 2, starts, lambda _: "0")
    assert engine.calls == {"iterator": 1}
    engine.micro_batch(NOW + 10_000, [], lambda _: "0")
    assert engine.calls == {"iterator": 1, "updateValue": BUCKETS, "registerTimer": 1}
    assert {entry[1] for entry in stored(engine)} == {"closed"}
    engine.micro_batch(NOW + 20_000, [], lambda _: "0")
    assert engine.calls == {"iterator": 1, "removeKey": BUCKETS + 1}
    assert engine.state("0") == {}


def test_devices_of_large_micro_batches_stay_recent_until_a_small_one() -> None:
    engine = Engine(RULES, 1)
    starts = [(f"device {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(3_000)]
    at_ms = grid_for_key("0", RULES.heartbeat_ms).after(NOW)
    for number in range(3):
        engine.micro_batch(at_ms + number, starts[number * 1_000 : (number + 1) * 1_000], lambda _: "0")
        assert engine.calls["updateValue"] == 1
    assert {tuple(key) for key in engine.state("0")} == {(-1,)}
    engine.micro_batch(at_ms + 3, [start(1)], lambda _: "0")
    assert engine.calls["updateValue"] == BUCKETS + 1
    assert len(stored(engine)) == 3_001


def stored(engine: Engine) -> list[list]:
    """All entries in the state of the group."""
    texts = [text for (text,) in engine.state("0").values()]
    return [entry for text in texts for entries in json.loads(text).values() for entry in entries]


@pytest.mark.parametrize("broken", [0, 1])
def test_the_error_for_a_broken_bucket_names_no_device(broken: int) -> None:
    """One of two buckets is broken, the first or the second that the timer reads."""
    engine = Engine(RULES, 1)
    engine.micro_batch(NOW, [start(1)], lambda _: "0")
    (timer_ms,) = engine.timers("0")
    texts = ['{"a":[[1,"live","pc",null,1,2]]}'] * 2
    texts[broken] = '{"a":[[1,"li}'
    engine.state("0").update({(number,): (text,) for number, text in enumerate(texts)})
    with pytest.raises(Exception, match=f"(?<!: )group 0, bucket {broken} of the state cannot be read"):
        engine.micro_batch(timer_ms, [], lambda _: "0")


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
