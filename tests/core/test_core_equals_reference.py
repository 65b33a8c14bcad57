"""The production core and the reference give the same changes, state and rows for every dirty history."""

from collections import Counter
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import Change, End, Event, Platform, Start, sort_events
from sessionization.core.session_rules import Tally
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, SessionState, deadline_ms
from tests.support.core_driver import Driver, by_device
from tests.support.random_histories import History, histories, law_settings, small_rules
from tests.support.reference import Device, Reference, canonical_place, session_rows

Entry = tuple[object, ...]


def state_of_core(driver: Driver) -> dict[str, list[Entry]]:
    """Returns each device's entries in the order in which the bound forgets them."""
    entries = {}
    for device_id, sessions in driver.sessions.items():
        in_order_of_forgetting = sorted(sessions.items(), key=lambda item: _order_of_forgetting(item[1]))
        entries[device_id] = [_entry(session_id, state, driver.rules) for session_id, state in in_order_of_forgetting]
    return entries


def _order_of_forgetting(state: SessionState) -> tuple[int, int]:
    match state:
        case Live():
            return 0, 0
        case Closed():
            return 1, state.closing_order
        case PendingEnd():
            return 2, state.closing_order


def _entry(session_id: int, state: SessionState, rules: Rules) -> Entry:
    identity = (session_id, state.account_id, state.platform)
    match state:
        case Live():
            return "live", identity, state.started_ms, state.opened_ms
        case Closed():
            end = (state.reason, state.revision, state.ended_ms, state.foreground_s)
            return "closed", identity, state.started_ms, end, deadline_ms(state, rules)
        case PendingEnd():
            return "pending", identity, state.at_ms, state.foreground_s, deadline_ms(state, rules)


def state_of_reference(reference: Reference) -> dict[str, list[Entry]]:
    return {device.device_id: _entries(device) for device in reference.remembered.values()}


def _entries(device: Device) -> list[Entry]:
    entries: list[Entry] = []
    if device.live is not None:
        entries.append(("live", _identity(device.live.newest_change), device.live.started_ms, device.live.opened_ms))
    for session in device.closed:
        change = session.newest_change
        end = (change.end_reason, change.revision, change.ended_ms, change.foreground_s)
        entries.append(("closed", _identity(change), session.started_ms, end, session.deadline_ms))
    for pending in device.pending_ends:
        end_event = pending.end
        entries.append(("pending", _identity(end_event), end_event.at_ms, end_event.foreground_s, pending.deadline_ms))
    return entries


def _identity(named: Change | End) -> Entry:
    return named.session_id, named.account_id, named.platform


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
    lambda make, *fields, foreground_s: make(*fields, foreground_s) if make is End else make(*fields),
    st.sampled_from((Start, End)),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(Platform),
    st.integers(0, 1),
    st.sampled_from((None, "Z", "a")),
    foreground_s=st.sampled_from((None, 0, 1)),
)


@law_settings(500)
@given(st.lists(similar_events, max_size=8))
def test_core_and_reference_agree_on_the_order_of_similar_events(events: list[Event]) -> None:
    assert sort_events(events) == sorted(events, key=canonical_place)


@law_settings(1_500)
@given(histories(), small_rules, st.sampled_from((by_device, lambda device_id: str(device_id == "a"), lambda _: "17")))
def test_core_and_reference_agree_after_every_micro_batch(
    history: History, rules: Rules, key_of: Callable[[str], str]
) -> None:
    driver, reference = Driver(rules, key_of), Reference(rules, key_of, is_grouped=key_of is not by_device)
    all_by_core: list[tuple[str, Change]] = []
    all_by_reference: list[tuple[str, Change]] = []
    for batch in history:
        by_core = driver.micro_batch(batch.now_ms, batch.rows)
        by_reference = reference.micro_batch(batch.now_ms, reversed(batch.rows))
        assert caused_by_events(by_core) == caused_by_events(by_reference)
        assert caused_by_timers(by_core) == caused_by_timers(by_reference)
        assert state_of_core(driver) == state_of_reference(reference)
        assert driver.timers == reference.timers
        assert driver.tally == Tally(**reference.counters)
        all_by_core += by_core
        all_by_reference += by_reference
    assert session_rows(all_by_core) == session_rows(reversed(all_by_reference * 2))
