"""Both stores hold what was stored, in whatever order they are called."""

import random
from typing import Any

import pytest

from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator import group_store
from sessionization.spark.operator.group_store import GroupStore
from sessionization.spark.operator.session_store import DeviceStore, SessionStore
from tests.support.operator_engine import Handle

LIVE = ("live", "pc", None, 1, 2, None, None, None, None, None, None)
CLOSED = ("closed", "pc", None, 1, None, 3, "reported", 0, None, 4, 0)
LAYOUTS = pytest.mark.parametrize("groups", [None, 1])


def store_of(handle: Handle, groups: int | None) -> SessionStore:
    handle.key = "d0"
    return DeviceStore(handle) if groups is None else GroupStore(handle, StateLayout(groups))


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
