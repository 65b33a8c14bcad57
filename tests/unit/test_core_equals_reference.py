"""The production core and the model of the rules say the same, column by column, for every dirty history."""

from collections import Counter
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import Change, End, Event, Platform, Start, in_order
from sessionization.core.reference import Device, Reference, canonical_place, session_rows
from sessionization.core.session_rules import Tally
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules, SessionState, deadline_ms
from tests.unit.driver import Driver, by_device
from tests.unit.random_histories import History, histories, laws, small_rules

Entry = tuple[object, ...]


def in_two_groups(device_id: str) -> str:
    return "0" if device_id == "a" else "1"


def in_one_group(_: str) -> str:
    return "17"


def left_by_core(driver: Driver) -> dict[str, list[Entry]]:
    """The entries of each device, in the order in which the bound would forget them."""
    left = {}
    for device_id, sessions in driver.sessions.items():
        in_turn = sorted(sessions.items(), key=lambda item: _turn(item[1]))
        left[device_id] = [_entry(session_id, state, driver.rules) for session_id, state in in_turn]
    return left


def _turn(state: SessionState) -> tuple[int, int]:
    match state:
        case Live():
            return 0, 0
        case Closed():
            return 1, state.place
        case PendingEnd():
            return 2, state.place


def _entry(session_id: int, state: SessionState, rules: Rules) -> Entry:
    who = (session_id, state.account_id, state.platform)
    match state:
        case Live():
            return "live", who, state.started_ms, state.opened_ms
        case Closed():
            end = (state.reason, state.revision, state.ended_ms, state.foreground_s)
            return "closed", who, state.started_ms, end, deadline_ms(state, rules)
        case PendingEnd():
            return "pending", who, state.at_ms, state.foreground_s, deadline_ms(state, rules)


def left_by_reference(reference: Reference) -> dict[str, list[Entry]]:
    return {device.device_id: _entries(device) for device in reference.remembered.values()}


def _entries(device: Device) -> list[Entry]:
    entries: list[Entry] = []
    if device.live is not None:
        entries.append(("live", _who(device.live.said), device.live.started_ms, device.live.opened_ms))
    for session in device.closed:
        said = session.said
        end = (said.end_reason, said.revision, said.ended_ms, said.foreground_s)
        entries.append(("closed", _who(said), session.started_ms, end, session.deadline_ms))
    for waiting in device.waiting:
        end_event = waiting.end
        entries.append(("pending", _who(end_event), end_event.at_ms, end_event.foreground_s, waiting.deadline_ms))
    return entries


def _who(named: Change | End) -> Entry:
    return named.session_id, named.account_id, named.platform


def caused_by_timers(changes: Iterable[tuple[str, Change]]) -> Counter[tuple[str, Change]]:
    """The other changes; the rules say nothing about their order within a firing."""
    return Counter(told for told in changes if told[1].event_ms is None)


def caused_by_events(changes: Iterable[tuple[str, Change]]) -> dict[str, list[Change]]:
    """The changes of each device that an event caused, in the order in which they happened."""
    of_device: dict[str, list[Change]] = {}
    for device_id, change in changes:
        if change.event_ms is not None:
            of_device.setdefault(device_id, []).append(change)
    return of_device


near_repeats = st.builds(
    lambda make, *fields, foreground_s: make(*fields, foreground_s) if make is End else make(*fields),
    st.sampled_from((Start, End)),
    st.integers(0, 1),
    st.integers(0, 1),
    st.sampled_from(Platform),
    st.integers(0, 1),
    st.sampled_from((None, "Z", "a")),
    foreground_s=st.sampled_from((None, 0, 1)),
)


@laws(500)
@given(st.lists(near_repeats, max_size=8))
def test_core_and_reference_agree_on_the_order_of_events_that_hardly_differ(events: list[Event]) -> None:
    assert in_order(events) == sorted(events, key=canonical_place)


@laws(1_500)
@given(histories(), small_rules, st.sampled_from((by_device, in_two_groups, in_one_group)))
def test_core_and_reference_agree_after_every_micro_batch(
    history: History, rules: Rules, key_of: Callable[[str], str]
) -> None:
    driver, reference = Driver(rules, key_of), Reference(rules, key_of)
    told_by_core: list[tuple[str, Change]] = []
    told_by_reference: list[tuple[str, Change]] = []
    for batch in history:
        by_core = driver.micro_batch(batch.now_ms, batch.rows)
        by_reference = reference.micro_batch(batch.now_ms, reversed(batch.rows))
        assert caused_by_events(by_core) == caused_by_events(by_reference)
        assert caused_by_timers(by_core) == caused_by_timers(by_reference)
        assert left_by_core(driver) == left_by_reference(reference)
        assert driver.timers == reference.timers
        assert driver.tally == Tally(**reference.counters)
        told_by_core += by_core
        told_by_reference += by_reference
    assert session_rows(told_by_core) == session_rows(reversed(told_by_reference * 2))
