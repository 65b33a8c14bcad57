"""The production core and the reference give the same changes, state and rows for every dirty history."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.device_sessions import Tally
from sessionization.core.events import Activity, Change, End, Event, Platform, Start, sort_events
from sessionization.core.session_state import Live, PendingEnd, Rules, Sessions, SessionState
from tests.support.core_driver import Driver, by_device
from tests.support.random_histories import (
    History,
    cases,
    histories,
    law_settings,
    rows_with_activity,
    small_rules,
    with_inactivity_timeout,
)
from tests.support.reference import Reference
from tests.support.reference_device import canonical_place, entries_of
from tests.support.reference_sessions import session_rows


def with_places(sessions: Sessions) -> dict[int, SessionState]:
    """Returns a device's entries, each with its place in the order in which the bound forgets them."""
    entries = dict(sessions)
    forgotten = {session_id: entry for session_id, entry in sessions.items() if not isinstance(entry, Live)}
    in_order = sorted(forgotten.items(), key=lambda item: (isinstance(item[1], PendingEnd), item[1].closing_order))
    for place, (session_id, entry) in enumerate(in_order):
        entries[session_id] = replace(entry, closing_order=place)
    return entries


def caused_by_timers(changes: Iterable[tuple[str, Change]]) -> Counter[tuple[str, Change]]:
    """Counts the changes that timers caused: the rules fix no order within a firing."""
    return Counter(row for row in changes if row[1].event_ms is None)


def caused_by_events(changes: Iterable[tuple[str, Change]]) -> dict[str, list[Change]]:
    """Returns each device's changes that events caused, in the order in which they happened."""
    changes_by_device: dict[str, list[Change]] = {}
    for device_id, change in changes:
        if change.event_ms is not None:
            changes_by_device.setdefault(device_id, []).append(change)
    return changes_by_device


similar_events = st.builds(
    lambda make, *fields, foreground_s, labels: (
        make(*fields, foreground_s, labels) if make is End else make(*fields, labels)
    ),
    st.sampled_from((Start, End, Activity)),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(Platform),
    st.integers(0, 1),
    st.sampled_from((None, "Z", "a")),
    foreground_s=st.sampled_from((None, 0, 1)),
    labels=st.tuples(*[st.sampled_from((None, "Z", "a"))] * 2),
)


@law_settings(500)
@given(st.lists(similar_events, max_size=8))
def test_core_and_reference_agree_on_the_order_of_similar_events(events: list[Event]) -> None:
    assert sort_events(events) == sorted(events, key=canonical_place)


key_functions = st.sampled_from((by_device, lambda device_id: str(device_id == "a"), lambda _: "17"))


@law_settings(2_000)
@given(cases(small_rules), key_functions)
def test_core_and_reference_agree_after_every_micro_batch(
    case: tuple[Rules, History], key_of: Callable[[str], str]
) -> None:
    rules, history = case
    check_that_they_agree(history, [rules] * len(history), key_of)


@law_settings(500)
@given(histories(any_row=rows_with_activity), with_inactivity_timeout(small_rules), key_functions, st.data())
def test_core_and_reference_agree_while_the_inactivity_timeout_is_set_and_unset(
    history: History, rules: Rules, key_of: Callable[[str], str], data: st.DataObject
) -> None:
    without = replace(rules, inactivity_timeout_ms=None)
    chosen = data.draw(st.lists(st.sampled_from((rules, without)), min_size=len(history), max_size=len(history)))
    check_that_they_agree(history, chosen, key_of)


def check_that_they_agree(history: History, rules_of_batches: list[Rules], key_of: Callable[[str], str]) -> None:
    rules = rules_of_batches[0]
    driver, reference = Driver(rules, key_of), Reference(rules, key_of, is_grouped=key_of is not by_device)
    all_by_core: list[tuple[str, Change]] = []
    all_by_reference: list[tuple[str, Change]] = []
    for batch, rules in zip(history, rules_of_batches, strict=True):
        driver.rules = reference.rules = rules
        by_core = driver.micro_batch(batch.now_ms, batch.rows)
        by_reference = reference.micro_batch(batch.now_ms, reversed(batch.rows))
        assert caused_by_events(by_core) == caused_by_events(by_reference)
        assert caused_by_timers(by_core) == caused_by_timers(by_reference)
        assert {device_id: with_places(sessions) for device_id, sessions in driver.sessions.items()} == {
            device.device_id: entries_of(device, rules) for device in reference.devices()
        }
        assert driver.timers == reference.timers
        assert driver.tally == Tally(**reference.counters)
        all_by_core += by_core
        all_by_reference += by_reference
    assert session_rows(all_by_core) == session_rows(reversed(all_by_reference * 2))
