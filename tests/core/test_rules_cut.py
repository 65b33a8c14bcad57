"""Start(s, t), rule S6 of docs/session-rules.md: a new Start cuts the closed session directly before it."""

import pytest

from sessionization.core.events import EndReason
from sessionization.core.session_state import Closed
from tests.support.histories import (
    CONSOLE,
    EARLIER,
    EIGHT,
    ELEVEN,
    NINE,
    NOON,
    NOW,
    REPORTED,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    apply,
    check_event,
    closed,
    ended,
    live,
    pending,
    start,
    started,
)

# The end reasons of the session directly before the new one, each with a foreground time.
REASONS = [(REPORTED, 60), (SUPERSEDED, None), (TIMED_OUT, None)]


@pytest.mark.parametrize(("reason", "foreground_s"), REASONS)
def test_s6_after_s5_the_earlier_end_is_emitted_again_with_the_same_reason(
    reason: EndReason, foreground_s: int | None
) -> None:
    check_event(
        {1: closed(NINE, ELEVEN, reason, revision=2, foreground_s=foreground_s, account_id="anna", platform=CONSOLE)},
        start(2, TEN),
        emitted=[
            started(2, TEN),
            ended(1, NINE, TEN, reason, 3, foreground_s, account_id="anna", platform=CONSOLE),
        ],
        state_after={
            1: closed(NINE, TEN, reason, revision=3, foreground_s=foreground_s, account_id="anna", platform=CONSOLE),
            2: live(TEN, opened_ms=NOW),
        },
    )


@pytest.mark.parametrize("ended_ms", [NINE, TEN - 1, TEN])
def test_s6_a_session_that_ended_by_the_new_start_is_left_alone(ended_ms: int) -> None:
    session = closed(NINE, ended_ms)
    check_event({1: session}, start(2, TEN), [started(2, TEN)], state_after={1: session, 2: live(TEN, opened_ms=NOW)})


def test_s6_a_session_that_ended_a_millisecond_after_the_new_start_is_cut() -> None:
    check_event(
        {1: closed(NINE, TEN + 1)},
        start(2, TEN),
        emitted=[started(2, TEN), ended(1, NINE, TEN, revision=1)],
        state_after={1: closed(NINE, TEN, revision=1), 2: live(TEN, opened_ms=NOW)},
    )


def test_s6_only_the_session_directly_before_is_cut() -> None:
    overlapping = closed(EIGHT, NOON)
    check_event(
        {2: closed(NINE, ELEVEN), 1: overlapping},
        start(3, TEN),
        emitted=[started(3, TEN), ended(2, NINE, TEN, revision=1)],
        state_after={1: overlapping, 2: closed(NINE, TEN, revision=1), 3: live(TEN, opened_ms=NOW)},
    )


def test_s6_a_pending_end_is_not_cut() -> None:
    waiting = {1: pending(NOON)}
    check_event(waiting, start(2, TEN), [started(2, TEN)], state_after={**waiting, 2: live(TEN, opened_ms=NOW)})


def test_s6_a_cut_changes_neither_the_deadline_nor_the_order_of_closing() -> None:
    session: Closed = closed(NINE, ELEVEN, closed_ms=EARLIER, closing_order=3)
    cut_session = apply({1: session, 5: closed(EIGHT, NINE, closing_order=4)}, start(2, TEN)).sessions[1]
    assert cut_session == closed(NINE, TEN, revision=1, closed_ms=EARLIER, closing_order=3)
