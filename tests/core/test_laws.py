"""The nine laws of docs/session-rules.md, each tested with random dirty histories, half of them with Activities.

That a device never has two live sessions is tested in `test_core_equals_reference.py`: the reference has room for one.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import Activity, Change, ChangeKind, End, EndReason, Start, sort_events
from sessionization.core.heartbeat_grid import Firing, grid_for_key
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import Live, PendingEnd, Rules, deadline_ms, next_timer_ms
from tests.support.core_driver import Driver, by_device
from tests.support.random_histories import (
    DEVICES,
    Batch,
    History,
    Row,
    agreeing_rows,
    arrivals,
    cases,
    law_settings,
    rows_with_activity,
    rules_that_forget_nothing,
    small_rules,
)
from tests.support.reference_sessions import SessionRow, session_rows

Changes = list[tuple[str, Change]]
Case = tuple[Rules, History]

key_functions = st.sampled_from((by_device, lambda _: "17"))


def play(driver: Driver, history: Iterable[Batch]) -> Changes:
    return [change for batch in history for change in driver.micro_batch(batch.now_ms, batch.rows)]


def by_session(changes: Changes) -> dict[tuple[str, int], list[Change]]:
    sessions: dict[tuple[str, int], list[Change]] = {}
    for device_id, change in changes:
        sessions.setdefault((device_id, change.session_id), []).append(change)
    return sessions


@law_settings(400)
@given(cases(rules_that_forget_nothing), key_functions, st.data())
def test_law_1_applying_the_same_event_again_changes_nothing(
    case: Case, key_of: Callable[[str], str], data: st.DataObject
) -> None:
    rules, history = case
    once, often = Driver(rules, key_of), Driver(rules, key_of)
    applied: list[Row] = []
    for batch in history:
        applied += _applied_rows(once, batch)
        again = data.draw(st.lists(st.sampled_from(applied), max_size=4)) if applied else []
        changes = once.micro_batch(batch.now_ms, batch.rows)
        assert often.micro_batch(batch.now_ms, (*batch.rows, *again)) == changes
    assert once.sessions == often.sessions


def _applied_rows(driver: Driver, batch: Batch) -> list[Row]:
    """The rows of a micro-batch without late Activities (A5): such a one, come again, may open its session."""
    applied: list[Row] = []
    for device_id in DEVICES:
        sessions = driver.sessions.get(device_id, {})
        for event in sort_events(event for owner, event in batch.rows if owner == device_id):
            outcome = on_events(sessions, [event], batch.now_ms, driver.rules)
            sessions = outcome.sessions
            if not outcome.tally.late_activity:
                applied.append((device_id, event))
    return applied


@law_settings(400)
@given(cases(rules_that_forget_nothing), key_functions)
def test_law_2_a_session_starts_once_beats_while_live_and_its_end_is_revised_in_one_direction(
    case: Case, key_of: Callable[[str], str]
) -> None:
    rules, history = case
    activities = {
        (device_id, event.session_id, event.at_ms, event.ingested_ms)
        for batch in history
        for device_id, event in batch.rows
        if isinstance(event, Activity)
    }
    for (device_id, session_id), changes in by_session(play(Driver(rules, key_of), history)).items():
        first, *others = changes
        assert first.kind is ChangeKind.STARTED
        later_starts = [change for change in others if change.kind is ChangeKind.STARTED]
        is_implied = (device_id, session_id, first.event_ms, first.ingested_ms) in activities
        assert len(later_starts) <= is_implied
        assert all((change.started_ms or 0) <= (first.started_ms or 0) for change in later_starts)
        _check_course(others)
        revised = [change.revision for change in others if change.kind in {ChangeKind.ENDED, ChangeKind.RESUMED}]
        assert revised == list(range(len(revised)))


def _check_course(changes: Iterable[Change]) -> None:
    """The changes of a session after its start: `reason` is that of its end while it is over."""
    reason: EndReason | None = None
    for change in changes:
        match change.kind:
            case ChangeKind.HEARTBEAT:
                assert reason is None
            case ChangeKind.RESUMED:
                assert reason is EndReason.INACTIVE
                reason = None
            case ChangeKind.ENDED:
                is_corrected = change.end_reason is EndReason.REPORTED
                assert is_corrected or reason in {None, change.end_reason}, "from inferred to reported, never back"
                reason = change.end_reason


@law_settings(400)
@given(cases(rules_that_forget_nothing), key_functions)
def test_law_3_sessions_never_overlap_by_their_last_revisions(case: Case, key_of: Callable[[str], str]) -> None:
    rules, history = case
    changes: Changes = []
    driver = Driver(rules, key_of)
    for batch in history:
        changes += driver.micro_batch(batch.now_ms, batch.rows)
        table = session_rows(changes)
        for device_id in DEVICES:
            timeline = sorted(
                (row.started_ms or 0, session_id, row.status == "live", row.ended_ms)
                for (owner, session_id), row in table.items()
                if owner == device_id
            )
            for (_, _, is_live, ended_ms), (next_started_ms, *_) in pairwise(timeline):
                assert not is_live
                assert ended_ms is not None
                assert ended_ms <= next_started_ms
            assert all(ended_ms is None or ended_ms >= started_ms for started_ms, _, _, ended_ms in timeline)


@law_settings(400)
@given(cases(small_rules), key_functions)
def test_law_4_a_timer_is_set_for_the_first_instant_at_which_there_is_something_to_do_or_earlier(
    case: Case, key_of: Callable[[str], str]
) -> None:
    rules, history = case
    driver = Driver(rules, key_of)
    for batch in history:
        driver.micro_batch(batch.now_ms, batch.rows)
        assert {key_of(device_id) for device_id in driver.sessions} <= set(driver.timers)
        for key, timers_ms in driver.timers.items():
            grid = grid_for_key(key, rules.heartbeat_ms)
            assert min(timers_ms) > batch.now_ms
            assert all(timer_ms == grid.at_or_before(timer_ms) for timer_ms in timers_ms)
            needed_ms = next_timer_ms(driver.entries(key), batch.now_ms, grid, rules)
            assert needed_ms is None or min(timers_ms) <= needed_ms
            for instant_ms in range(grid.after(batch.now_ms), needed_ms or 0, grid.step_ms):
                _check_that_a_firing_does_nothing(driver, key, Firing.from_timer(instant_ms, instant_ms, grid))


def _check_that_a_firing_does_nothing(driver: Driver, key: str, firing: Firing) -> None:
    for device_id, sessions in driver.sessions.items():
        if driver.key_of(device_id) == key:
            outcome = on_timer(sessions, firing, driver.rules)
            assert (outcome.sessions, outcome.changes) == (sessions, [])


@law_settings(400)
@given(cases(small_rules), st.lists(rows_with_activity, max_size=12), st.data())
def test_law_5_splitting_the_same_ordered_events_over_micro_batches_changes_nothing(
    case: Case, more: list[Row], data: st.DataObject
) -> None:
    rules, history = case
    driver = Driver(rules)
    play(driver, history)
    now_ms = history[-1].now_ms
    for device_id in DEVICES:
        sessions = driver.sessions.get(device_id, {})
        events = sort_events(event for owner, event in more if owner == device_id)
        at_once = on_events(sessions, events, now_ms, rules)
        cut = data.draw(st.integers(0, len(events)))
        first = on_events(sessions, events[:cut], now_ms, rules)
        second = on_events(first.sessions, events[cut:], now_ms, rules)
        assert at_once.changes == first.changes + second.changes
        assert at_once.sessions == second.sessions


@law_settings(400)
@given(cases(small_rules), key_functions)
def test_law_6_a_session_emits_at_most_one_heartbeat_for_a_timer_however_late(
    case: Case, key_of: Callable[[str], str]
) -> None:
    rules, history = case
    driver = Driver(rules, key_of)
    newest: dict[tuple[str, int, int], int] = {}
    for batch in history:
        changes = driver.micro_batch(batch.now_ms, batch.rows)
        for device_id, change in changes:
            if change.kind is ChangeKind.RESUMED:
                _skip_beats(newest, driver, device_id, change)
        beats = [(device_id, change) for device_id, change in changes if change.kind is ChangeKind.HEARTBEAT]
        assert len({(device_id, change.session_id) for device_id, change in beats}) == len(beats)
        for device_id, change in beats:
            assert key_of(device_id) in driver.fired
            _check_beat(newest, device_id, change, rules, key_of(device_id))


def _skip_beats(newest: dict[tuple[str, int, int], int], driver: Driver, device_id: str, resumed: Change) -> None:
    """The beats of the time in which a session was closed are not missed."""
    entry = driver.sessions[device_id].get(resumed.session_id)
    if isinstance(entry, Live):
        grid = grid_for_key(driver.key_of(device_id), driver.rules.heartbeat_ms)
        skipped = grid.steps(grid.at_or_before(entry.opened_ms), grid.at_or_before(resumed.processed_ms))
        newest[device_id, resumed.session_id, entry.opened_ms] = skipped


def _check_beat(
    newest: dict[tuple[str, int, int], int], device_id: str, change: Change, rules: Rules, key: str
) -> None:
    assert change.due_ms is not None
    assert change.beat is not None
    assert change.missed_beats is not None
    assert change.duration_ms is not None
    opened_ms = change.processed_ms - change.duration_ms
    instants = [
        at_ms
        for at_ms in range(opened_ms + 1, change.processed_ms + 1)
        if grid_for_key(key, rules.heartbeat_ms).at_or_before(at_ms) == at_ms
    ]
    assert change.due_ms == instants[-1]
    assert change.beat == len(instants)
    previous = newest.get((device_id, change.session_id, opened_ms), 0)
    assert change.beat - change.missed_beats - 1 == previous
    newest[device_id, change.session_id, opened_ms] = change.beat


@law_settings(400)
@given(cases(small_rules), key_functions)
def test_law_7_state_is_bounded_and_empty_soon_after_the_last_session_closed(
    case: Case, key_of: Callable[[str], str]
) -> None:
    rules, history = case
    driver = Driver(rules, key_of)
    for batch in history:
        while due := [timer_ms for timer_ms in map(min, driver.timers.values()) if timer_ms < batch.now_ms]:
            driver.micro_batch(min(due), ())
            _check_bounds(driver, min(due))
        driver.micro_batch(batch.now_ms, batch.rows)
        _check_bounds(driver, batch.now_ms)
    while driver.timers:
        now_ms = min(map(min, driver.timers.values()))
        driver.micro_batch(now_ms, ())
        _check_bounds(driver, now_ms)
    assert driver.sessions == {}


def _check_bounds(driver: Driver, now_ms: int) -> None:
    rules = driver.rules
    assert all(timer_ms > now_ms for timer_ms in map(min, driver.timers.values())), (
        "or the timers below would never end"
    )
    for sessions in driver.sessions.values():
        assert len(sessions) <= rules.max_sessions_per_device
        for entry in sessions.values():
            if isinstance(entry, Live) and rules.inactivity_timeout_ms is not None:
                assert entry.signs is not None
                assert now_ms < entry.signs.heard_ms + rules.inactivity_timeout_ms + rules.heartbeat_ms
            elif isinstance(entry, Live):
                assert now_ms < entry.opened_ms + rules.session_timeout_ms + rules.heartbeat_ms
            else:
                assert now_ms < deadline_ms(entry, rules) + rules.heartbeat_ms


@law_settings(400)
@given(cases(small_rules))
def test_law_8_no_event_is_lost(case: Case) -> None:
    rules, history = case
    driver = Driver(rules)
    waiting: set[tuple[str, int]] = set()
    for batch in history:
        # One event per micro-batch, so that its changes are caused by that event or by a timer.
        for rows_at_once in ((), *((row,) for row in batch.rows)):
            before = asdict(driver.tally)
            changes_by_session = by_session(driver.micro_batch(batch.now_ms, rows_at_once))
            ended_by_an_end = {
                session
                for session, changes in changes_by_session.items()
                if any(_from_an_end(change) for change in changes)
            }
            still_waiting = _waiting(driver)
            assert waiting - still_waiting <= ended_by_an_end
            for device_id, event in rows_at_once:
                session = (device_id, event.session_id)
                kinds = {change.kind for change in changes_by_session.get(session, [])}
                counted = {name: count - before[name] for name, count in asdict(driver.tally).items()}
                match event:
                    case Start():
                        is_in_changes = ChangeKind.STARTED in kinds
                        repeats = counted["duplicate_start"]
                    case End():
                        is_in_changes = session in ended_by_an_end or session in still_waiting - waiting
                        repeats = counted["duplicate_end"]
                    case Activity():
                        is_in_changes = counted["activities"] == 1
                        repeats = counted["duplicate_activity"] + counted["late_activity"]
                        assert (ChangeKind.STARTED in kinds) == (counted["implied_starts"] == 1)
                        assert counted["implied_starts"] + (ChangeKind.RESUMED in kinds) <= is_in_changes
                assert (is_in_changes, repeats) in {(True, 0), (False, 1)}
            waiting = still_waiting


def _from_an_end(change: Change) -> bool:
    return change.end_reason in {EndReason.REPORTED, EndReason.ORPHANED}


def _waiting(driver: Driver) -> set[tuple[str, int]]:
    return {
        (device_id, session_id)
        for device_id, sessions in driver.sessions.items()
        for session_id, entry in sessions.items()
        if isinstance(entry, PendingEnd)
    }


def without_revision(changes: Changes) -> dict[tuple[str, int], SessionRow]:
    return {session: replace(row, revision=0, updated_ms=0) for session, row in session_rows(changes).items()}


@law_settings(500)
@given(st.data(), agreeing_rows(), key_functions)
def test_law_9_the_final_sessions_do_not_depend_on_the_order_of_arrival(
    data: st.DataObject, agreeing: list[Row], key_of: Callable[[str], str]
) -> None:
    rules = Rules(10, 10**9, 10**9, 1_000, inactivity_timeout_ms=data.draw(st.sampled_from((None, 10**9))))
    one_batch = play(Driver(rules, key_of), [Batch(0, tuple(agreeing))])
    arrived = play(Driver(rules, key_of), data.draw(arrivals(agreeing)))
    assert without_revision(arrived) == without_revision(one_batch)
