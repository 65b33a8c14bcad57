"""Title and kept values: the Start's, each by itself, and the End's where the Start has none ("What a change says").

Here a job has two label columns. Each test is (state before, event) -> (changes, state after).
"""

from dataclasses import replace

import pytest

from sessionization.core.events import Change, ChangeKind, Labels
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.session_rules import on_timer
from sessionization.core.session_state import Closed, Live, PendingEnd
from tests.support.histories import (
    EARLIER,
    ELEVEN,
    MINUTE,
    NINE,
    NOW,
    ORPHANED,
    RULES,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
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

NONE: Labels = (None, None)
CHESS: Labels = ("chess", None)
GO_DE: Labels = ("go", "DE")
CHESS_DE: Labels = ("chess", "DE")

Entry = Live | Closed | PendingEnd


def of(entry: Entry, labels: Labels) -> Entry:
    return replace(entry, labels=labels)


def says(change: Change, labels: Labels) -> Change:
    return change._replace(labels=labels)


@pytest.mark.parametrize(
    ("of_start", "of_end", "shown"),
    [(NONE, NONE, NONE), (CHESS, NONE, CHESS), (NONE, GO_DE, GO_DE), (CHESS, GO_DE, CHESS_DE), (GO_DE, CHESS, GO_DE)],
)
def test_each_is_the_starts_by_itself_and_the_ends_where_the_start_has_none(
    of_start: Labels, of_end: Labels, shown: Labels
) -> None:
    start_event, end_event = (replace(start(1, NINE), labels=of_start), replace(end(1, TEN), labels=of_end))
    is_started, is_ended = started(1, NINE), ended(1, NINE, TEN)
    opened, over = live(NINE, opened_ms=NOW), closed(NINE, TEN, closed_ms=NOW)
    check_event({}, start_event, [says(is_started, of_start)], {1: of(opened, of_start)})
    check_event({1: of(live(NINE), of_start)}, end_event, [says(is_ended, shown)], {1: of(over, shown)})  # E1
    check_event({}, end_event, [], {1: of(pending(TEN, seen_ms=NOW), of_end)})  # E4
    waiting = {1: of(pending(TEN), of_end)}
    check_event(waiting, start_event, [says(is_started, shown), says(is_ended, shown)], {1: of(over, shown)})  # S2
    inferred = {1: of(closed(NINE, ELEVEN, TIMED_OUT), of_start)}
    corrected = says(ended(1, NINE, TEN, revision=1), shown)
    check_event(inferred, end_event, [corrected], {1: of(closed(NINE, TEN, revision=1), shown)})  # E2


def test_every_end_of_a_session_has_its_own() -> None:
    """S3, S4 and S6: the Start of another session, which has others, is the cause."""
    before = {1: of(live(NINE), CHESS)}
    superseded = says(ended(1, NINE, TEN, SUPERSEDED), CHESS)
    after = {
        1: of(closed(NINE, TEN, SUPERSEDED, closed_ms=NOW), CHESS),
        2: of(live(TEN, opened_ms=NOW), GO_DE),
    }
    check_event(before, replace(start(2, TEN), labels=GO_DE), [superseded, says(started(2, TEN), GO_DE)], after)
    cut = apply({1: of(closed(NINE, ELEVEN), CHESS)}, replace(start(2, TEN), labels=GO_DE)).changes
    assert [change.labels for change in cut] == [GO_DE, CHESS]
    old_news = apply({2: of(live(TEN), GO_DE)}, replace(start(1, NINE), labels=CHESS)).changes
    assert [(change.session_id, change.labels) for change in old_news] == [(1, CHESS), (1, CHESS)]


def test_a_repeat_changes_none() -> None:
    for entry in (of(live(NINE), CHESS), of(closed(NINE, TEN), CHESS)):
        assert apply({1: entry}, replace(start(1, NINE), labels=GO_DE)).sessions == {1: entry}
    for entry in (of(closed(NINE, TEN), CHESS), of(pending(TEN), CHESS)):
        assert apply({1: entry}, replace(end(1, TEN), labels=GO_DE)).sessions == {1: entry}


def test_a_heartbeat_has_none_and_ends_by_timer_have_the_sessions() -> None:
    before = {
        1: of(live(NINE), CHESS),
        2: of(live(NINE, opened_ms=NOW - RULES.session_timeout_ms), GO_DE),
        3: of(pending(TEN, seen_ms=NOW - RULES.late_retention_ms), CHESS_DE),
    }
    changes = on_timer(before, Firing.from_timer(EARLIER + MINUTE, NOW, Grid(RULES.heartbeat_ms, 0)), RULES).changes
    assert {(change.kind, change.end_reason): change.labels for change in changes} == {
        (ChangeKind.HEARTBEAT, None): (),
        (ChangeKind.ENDED, TIMED_OUT): GO_DE,
        (ChangeKind.ENDED, ORPHANED): CHESS_DE,
    }
