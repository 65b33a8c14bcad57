"""Activity(s, t) and what it changes for Starts and timers: A1 to A5, S4, S7, T0, T1 and T2 with `inactivity_timeout`.

The rules are written as (state before, event or timer) -> (changes, state after). The timeout is 20 minutes.
"""

from dataclasses import replace

import pytest

from sessionization.core.device_sessions import Outcome, Tally
from sessionization.core.events import Activity, Change, ChangeKind, EndReason, Event
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.session_rules import on_timer
from sessionization.core.session_state import Closed, Live, Rules, Sessions, SessionState, Signs
from tests.support.core_driver import Driver
from tests.support.histories import (
    CONSOLE,
    EARLIER,
    EIGHT,
    ELEVEN,
    HOUR,
    INACTIVE,
    MINUTE,
    NINE,
    NOON,
    NOW,
    PC,
    REPORTED,
    RULES,
    SECOND,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    activity,
    apply,
    check_event,
    closed,
    end,
    ended,
    live,
    pending,
    start,
    started,
)

SILENCE = 20 * MINUTE
ACTIVE = replace(RULES, inactivity_timeout_ms=SILENCE)
OPENED = EARLIER


def heard(
    started_ms: int,
    last_active_ms: int,
    heard_ms: int = EARLIER,
    *,
    opened_ms: int = OPENED,
    is_implied: bool = False,
    resumed_ms: int | None = None,
    revision: int = 0,
    account_id: str | None = None,
    platform: str = PC,
) -> Live:
    """A live session with signs of life."""
    signs = Signs(last_active_ms, heard_ms, is_implied, resumed_ms, revision)
    return Live(started_ms, opened_ms, account_id, platform, signs=signs)


def over(entry: Closed, *, opened_ms: int = OPENED, is_implied: bool = False) -> Closed:
    """A closed session that had signs of life."""
    return replace(entry, opened_ms=opened_ms, is_implied=is_implied)


def resumed(session_id: int, started_ms: int, revision: int) -> Change:
    return Change(session_id, None, PC, ChangeKind.RESUMED, NOW, started_ms, revision=revision)


def check(state_before: Sessions, event: Event, emitted: list[Change], state_after: Sessions, **counts: int) -> None:
    outcome = check_event(state_before, event, emitted, state_after, rules=ACTIVE)
    assert outcome.tally == Tally(events=1, **counts)


def test_without_the_timeout_an_activity_does_nothing_and_a_start_has_no_signs() -> None:
    before: Sessions = {1: live(NINE), 2: closed(EIGHT, NINE, INACTIVE)}
    for session_id in (1, 2, 3):
        outcome = apply(before, activity(session_id, TEN))
        assert (outcome.sessions, outcome.changes, outcome.updated) == (before, [], {})
        assert outcome.tally == Tally()
    check_event({}, start(1, NINE), [started(1, NINE)], {1: live(NINE, NOW)})


def test_a_start_that_opens_is_a_sign_of_life() -> None:
    check({}, start(1, NINE), [started(1, NINE)], {1: heard(NINE, NINE, NOW, opened_ms=NOW)})


def test_a1_a_newer_activity_is_heard_without_a_row_and_gives_no_account() -> None:
    check(
        {1: heard(NINE, TEN, is_implied=True, resumed_ms=EARLIER, revision=2)},
        activity(1, TEN + 1, "ann", CONSOLE),
        [],
        {1: heard(NINE, TEN + 1, NOW, is_implied=True, resumed_ms=EARLIER, revision=2)},
        activities=1,
    )


@pytest.mark.parametrize("at_ms", [EIGHT, NINE, TEN])
def test_a3_an_activity_that_is_no_newer_does_nothing(at_ms: int) -> None:
    check({1: heard(NINE, TEN)}, activity(1, at_ms), [], {1: heard(NINE, TEN)}, duplicate_activity=1)


def test_a_live_session_without_signs_has_them_once_it_is_loaded() -> None:
    known = {1: heard(NINE, NINE, NOW)}
    check({1: live(NINE)}, activity(1, NINE), [], known, duplicate_activity=1)
    check({1: live(NINE)}, start(1, TEN), [], known, duplicate_start=1)
    check({1: live(NINE)}, activity(1, TEN), [], {1: heard(NINE, TEN, NOW)}, activities=1)
    outcome = fire({1: live(NINE, NOW - HOUR)}, NOW)
    assert outcome.sessions == outcome.updated == {1: heard(NINE, NINE, NOW, opened_ms=NOW - HOUR)}
    assert [change.kind for change in outcome.changes] == [ChangeKind.HEARTBEAT]


def test_a2_a_session_that_was_closed_as_inactive_goes_on() -> None:
    before = {1: over(closed(NINE, TEN, INACTIVE, revision=3), is_implied=True), 2: closed(EIGHT, NINE)}
    signs_after = heard(NINE, TEN + 1, NOW, is_implied=True, resumed_ms=NOW, revision=5)
    emitted = [resumed(1, NINE, revision=4)]
    check(before, activity(1, TEN + 1, "ann"), emitted, {**before, 1: signs_after}, activities=1)


@pytest.mark.parametrize(
    ("entry", "at_ms", "other"),
    [
        (closed(NINE, TEN, INACTIVE), TEN, closed(EIGHT, NINE)),
        (closed(NINE, TEN, INACTIVE), NOON, closed(ELEVEN, NOON)),
        (closed(NINE, TEN, INACTIVE), NOON, heard(ELEVEN, ELEVEN)),
        (closed(NINE, TEN, INACTIVE), NOON, closed(NINE, NINE)),
        (closed(NINE, TEN, SUPERSEDED), NOON, closed(EIGHT, NINE)),
        (closed(NINE, TEN, TIMED_OUT), NOON, closed(EIGHT, NINE)),
        (closed(NINE, TEN, REPORTED), NOON, closed(EIGHT, NINE)),
        (pending(TEN), NOON, closed(EIGHT, NINE)),
    ],
)
def test_a3_another_remembered_session_does_not_go_on(entry: SessionState, at_ms: int, other: SessionState) -> None:
    before = {1: over(entry) if isinstance(entry, Closed) else entry, 2: other}
    check(before, activity(1, at_ms), [], before, duplicate_activity=1)


def test_a4_an_activity_of_an_unknown_session_is_an_implied_start() -> None:
    check(
        {1: closed(EIGHT, NINE), 2: pending(NOON)},
        activity(7, NINE, "ann", CONSOLE),
        [started(7, NINE, "ann", CONSOLE)],
        {
            1: closed(EIGHT, NINE),
            2: pending(NOON),
            7: heard(NINE, NINE, NOW, opened_ms=NOW, is_implied=True, account_id="ann", platform=CONSOLE),
        },
        activities=1,
        implied_starts=1,
    )


def test_a4_a_live_session_that_was_silent_for_long_was_over_before() -> None:
    at_ms = TEN + SILENCE
    check(
        {1: heard(NINE, TEN)},
        activity(2, at_ms),
        [ended(1, NINE, TEN, INACTIVE), started(2, at_ms)],
        {
            1: over(closed(NINE, TEN, INACTIVE, closed_ms=NOW)),
            2: heard(at_ms, at_ms, NOW, opened_ms=NOW, is_implied=True),
        },
        activities=1,
        implied_starts=1,
    )


@pytest.mark.parametrize(
    "other",
    [
        heard(NINE, TEN - SILENCE + 1),
        heard(ELEVEN, ELEVEN),
        closed(TEN, TEN),
        closed(ELEVEN, NOON),
        closed(NINE, TEN + 1),
    ],
    ids=["alive", "live and later", "the same start and a greater id", "later", "ends after it"],
)
def test_a5_an_activity_of_an_unknown_session_opens_none_where_another_was_alive(other: SessionState) -> None:
    check({9: other}, activity(2, TEN), [], {9: other}, late_activity=1)


def test_a5_an_activity_older_than_the_timeout_opens_no_session() -> None:
    young, old = (Activity(1, TEN, PC, TEN + SILENCE + late_ms) for late_ms in (0, 1))
    check({}, old, [], {}, late_activity=1)
    assert apply({}, young, rules=ACTIVE).tally.implied_starts == 1


@pytest.mark.parametrize(
    ("silent_ms", "ended_ms", "reason"), [(SILENCE - 1, NOON, SUPERSEDED), (SILENCE, NOON - SILENCE, INACTIVE)]
)
@pytest.mark.parametrize("is_over_already", [False, True])
def test_s4_a_newer_start_supersedes_the_live_session_or_finds_it_inactive(
    silent_ms: int, ended_ms: int, reason: EndReason, *, is_over_already: bool
) -> None:
    """S2 too, where the End of the newer session came before its Start."""
    before: dict[int, SessionState] = {1: heard(NINE, NOON - silent_ms)}
    outcome = apply(before | ({2: pending(NOW)} if is_over_already else {}), start(2, NOON), rules=ACTIVE)
    first = outcome.changes[0]
    assert (first.kind, first.end_reason, first.ended_ms) == (ChangeKind.ENDED, reason, ended_ms)
    assert outcome.sessions[1] == over(
        closed(NINE, ended_ms, reason, closed_ms=NOW, closing_order=int(is_over_already))
    )


def test_the_next_end_of_a_session_that_was_resumed_has_the_next_revision() -> None:
    before = {1: heard(NINE, TEN, is_implied=True, resumed_ms=EARLIER, revision=2)}
    after = {1: over(closed(NINE, ELEVEN, revision=2, closed_ms=NOW), is_implied=True)}
    check(before, end(1, ELEVEN), [ended(1, NINE, ELEVEN, revision=2)], after)


def test_e2_an_end_corrects_an_inactive_one() -> None:
    before = {1: over(closed(NINE, TEN, INACTIVE))}
    after = {1: over(closed(NINE, ELEVEN, revision=1, foreground_s=9))}
    check(before, end(1, ELEVEN, 9), [ended(1, NINE, ELEVEN, revision=1, foreground_s=9)], after)


IMPLIED = heard(TEN, ELEVEN, is_implied=True, account_id="old", platform=CONSOLE)


def test_s7_an_earlier_start_moves_the_start_of_an_implied_session_and_cuts_the_one_before() -> None:
    before: Sessions = {1: IMPLIED, 2: closed(EIGHT, TEN, SUPERSEDED)}
    after = {1: heard(NINE, ELEVEN, account_id="new"), 2: closed(EIGHT, NINE, SUPERSEDED, revision=1)}
    emitted = [started(1, NINE, "new"), ended(2, EIGHT, NINE, SUPERSEDED, revision=1)]
    check(before, start(1, NINE, "new"), emitted, after)
    check(after, start(1, EIGHT), [], after, duplicate_start=1)


def test_s7_a_start_without_account_leaves_the_activitys() -> None:
    after = {1: heard(NINE, ELEVEN, account_id="old")}
    check({1: IMPLIED}, start(1, NINE), [started(1, NINE, "old")], after)


@pytest.mark.parametrize(
    ("at_ms", "between"),
    [
        (TEN, closed(EIGHT, NINE)),
        (TEN + 1, closed(EIGHT, NINE)),
        (EIGHT, closed(NINE, NINE)),
        (NINE, closed(NINE, TEN)),
    ],
    ids=["the same time", "later", "another session between", "another one at the same time, with a greater id"],
)
def test_s7_another_start_gives_only_what_the_session_lacks(at_ms: int, between: Closed) -> None:
    start_stays = replace(heard(TEN, ELEVEN), account_id="old", platform=CONSOLE)
    before: Sessions = {1: IMPLIED, 2: between}
    check(before, start(1, at_ms, "new"), [started(1, TEN, "old", CONSOLE)], {1: start_stays, 2: between})
    nameless = {1: replace(IMPLIED, account_id=None), 2: between}
    named = {1: replace(start_stays, account_id="new"), 2: between}
    check(nameless, start(1, at_ms, "new"), [started(1, TEN, "new", CONSOLE)], named)


def test_s7_title_and_kept_values_are_the_starts_where_it_moves_and_else_the_sessions() -> None:
    implied = replace(IMPLIED, labels=("chess", None, "AT"))
    for at_ms, shown in ((NINE, ("go", "DE", "AT")), (NOON, ("chess", "DE", "AT"))):
        outcome = apply({1: implied}, replace(start(1, at_ms), labels=("go", "DE", None)), rules=ACTIVE)
        assert [change.labels for change in outcome.changes] == [shown]
        assert outcome.sessions[1].labels == shown


@pytest.mark.parametrize("reason", [REPORTED, SUPERSEDED, INACTIVE])
def test_s7_a_closed_session_shows_its_end_again(reason: EndReason) -> None:
    ends = closed(TEN, NOON, reason, revision=2, foreground_s=5, closing_order=0)
    before = {1: over(ends, is_implied=True)}
    moved = over(replace(ends, started_ms=NINE, revision=3))
    shown_again = ended(1, NINE, NOON, reason, revision=3, foreground_s=5)
    check(before, start(1, NINE), [started(1, NINE), shown_again], {1: moved})
    stays = over(replace(ends, revision=3))
    shown_again = ended(1, TEN, NOON, reason, revision=3, foreground_s=5)
    check(before, start(1, ELEVEN), [started(1, TEN), shown_again], {1: stays})


def test_s7_a_closed_session_whose_start_moves_cuts_the_one_before_too() -> None:
    before: Sessions = {1: over(closed(TEN, NOON), is_implied=True), 2: closed(EIGHT, TEN, SUPERSEDED)}
    after = {1: over(closed(NINE, NOON, revision=1)), 2: closed(EIGHT, NINE, SUPERSEDED, revision=1)}
    emitted = [started(1, NINE), ended(1, NINE, NOON, revision=1), ended(2, EIGHT, NINE, SUPERSEDED, revision=1)]
    check(before, start(1, NINE), emitted, after)


GRID = Grid(RULES.heartbeat_ms, phase_ms=0)


def fire(state_before: Sessions, now_ms: int, set_for_ms: int | None = None, rules: Rules = ACTIVE) -> Outcome:
    return on_timer(state_before, Firing.from_timer(set_for_ms or now_ms, now_ms, GRID), rules)


def test_t0_a_session_of_which_nothing_was_heard_is_inactive_since_its_last_activity() -> None:
    before = {1: heard(NINE, TEN, is_implied=True, revision=2)}
    for now_ms in (EARLIER + SILENCE, EARLIER + HOUR):
        outcome = fire(before, now_ms)
        assert outcome.changes == [ended(1, NINE, TEN, INACTIVE, revision=2)._replace(processed_ms=now_ms)]
        after = closed(NINE, TEN, INACTIVE, revision=2, closed_ms=now_ms)
        assert outcome.sessions == {1: over(after, is_implied=True)}
    outcome = fire(before, EARLIER + SILENCE - 1, set_for_ms=EARLIER + MINUTE)
    assert [change.kind for change in outcome.changes] == [ChangeKind.HEARTBEAT]
    assert outcome.sessions == before


def test_t1_the_session_timeout_has_no_effect_with_the_inactivity_timeout_and_all_effect_without() -> None:
    days = 3 * RULES.session_timeout_ms
    before = {1: heard(NINE, TEN, EARLIER + days)}
    assert [change.kind for change in fire(before, EARLIER + days).changes] == [ChangeKind.HEARTBEAT]
    [change] = fire(before, EARLIER + days, rules=RULES).changes
    assert (change.end_reason, change.ended_ms) == (TIMED_OUT, NINE + RULES.session_timeout_ms)


@pytest.mark.parametrize(
    ("now_ms", "set_for_ms", "beat", "missed_beats"),
    [
        (NOW + 29 * SECOND, NOW, None, None),
        (NOW + 30 * SECOND, NOW + 30 * SECOND, 21, 0),
        (NOW + 90 * SECOND, NOW + 30 * SECOND, 23, 2),
        (NOW + 90 * SECOND, NOW - MINUTE, 23, 2),
    ],
)
def test_t2_a_resumed_session_beats_on_and_missed_none_while_it_was_closed(
    now_ms: int, set_for_ms: int, beat: int | None, missed_beats: int | None
) -> None:
    resumed_here = {1: heard(NINE, TEN, NOW, opened_ms=NOW - 10 * MINUTE, resumed_ms=NOW + SECOND)}
    changes = fire(resumed_here, now_ms, set_for_ms).changes
    assert [(change.beat, change.missed_beats) for change in changes] == (
        [] if beat is None else [(beat, missed_beats)]
    )


def test_an_outage_gives_one_inactive_and_one_resumed() -> None:
    driver = Driver(replace(ACTIVE, late_retention_ms=SILENCE))
    rows: list[tuple[ChangeKind, EndReason | None, int]] = []
    for now_ms, event in (
        (NOW, start(1, NOON)),
        (NOW + HOUR, None),
        (NOW + HOUR + SECOND, activity(1, NOON + HOUR)),
        (NOW + HOUR + 10 * MINUTE, end(1, NOON + HOUR + MINUTE)),
    ):
        changes = driver.micro_batch(now_ms, [] if event is None else [("device", event)])
        rows += [(change.kind, change.end_reason, change.revision) for _, change in changes]
    assert rows == [
        (ChangeKind.STARTED, None, 0),
        (ChangeKind.ENDED, INACTIVE, 0),
        (ChangeKind.RESUMED, None, 1),
        (ChangeKind.ENDED, REPORTED, 2),
    ]
    assert (driver.tally.activities, driver.tally.implied_starts) == (1, 0)
