"""The `sessions` table ("The `sessions` table" in docs/session-rules.md): one row per session from its changes."""

from dataclasses import replace
from itertools import permutations

import pytest

from sessionization.core.events import Change, ChangeKind
from tests.support.histories import (
    CONSOLE,
    EIGHT,
    ELEVEN,
    HOUR,
    NINE,
    NOON,
    NOW,
    ORPHANED,
    PC,
    REPORTED,
    SUPERSEDED,
    TEN,
    TIMED_OUT,
    ended,
    started,
)
from tests.support.reference import SessionRow, session_rows

ROW = SessionRow(None, PC, "ended", NINE, TEN, HOUR, None, REPORTED, 0, NOW)


def session_row(*changes: Change) -> SessionRow:
    """Returns the row of session 1, and checks that every order and repetition of the changes gives it."""
    rows = [session_rows([("device", change) for change in order * 2]) for order in permutations(changes)]
    assert all(row == rows[0] for row in rows)
    return rows[0]["device", 1]


def at(processed_ms: int, change: Change) -> Change:
    return change._replace(processed_ms=processed_ms)


def test_a_started_session_is_live() -> None:
    assert session_row(started(1, NINE, "anna", CONSOLE)) == SessionRow(
        "anna", CONSOLE, "live", NINE, None, None, None, None, 0, NOW
    )


def test_an_ended_session_is_never_live_again() -> None:
    row = session_row(started(1, NINE), ended(1, NINE, TEN, foreground_s=60), at(NOW + HOUR, started(1, NINE)))
    assert row == replace(ROW, foreground_s=60, updated_ms=NOW + HOUR)


def test_a_heartbeat_never_changes_the_table() -> None:
    beat = Change(1, "anna", PC, ChangeKind.HEARTBEAT, NOW + HOUR, EIGHT, beat=1, missed_beats=0, due_ms=NOW)
    assert session_rows([("device", beat)]) == {}
    assert session_row(started(1, NINE), beat) == session_row(started(1, NINE))


def test_an_end_alone_makes_a_row_and_an_orphan_has_no_start() -> None:
    assert session_row(ended(1, NINE, TEN)) == ROW
    orphan = session_row(ended(1, None, TEN, ORPHANED, foreground_s=60))
    assert orphan == replace(ROW, started_ms=None, duration_ms=None, end_reason=ORPHANED, foreground_s=60)


# Each end is greater than the previous one: the first field that differs decides, whatever the later fields are.
ENDS = [
    ended(1, NINE, TEN, SUPERSEDED, revision=0),
    ended(1, NINE, TEN, TIMED_OUT, revision=0, platform=CONSOLE),
    ended(1, NINE, TEN, SUPERSEDED, revision=0, account_id="a"),
    ended(1, NINE, TEN + 1, SUPERSEDED, revision=0),
    ended(1, NINE, TEN, SUPERSEDED, revision=1),
    ended(1, None, NINE, ORPHANED, revision=0),
    ended(1, NINE, NINE, REPORTED, revision=0, foreground_s=99),
    ended(1, NINE, NINE, REPORTED, revision=2, foreground_s=99),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, account_id="b"),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=0, account_id="b"),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1, account_id="Z", platform=PC),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1, account_id="a", platform=CONSOLE),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1, account_id="a", platform=PC),
]


@pytest.mark.parametrize("index", range(1, len(ENDS)))
def test_the_greatest_end_is_shown(index: int) -> None:
    greater = ENDS[index]
    row = session_row(ENDS[index - 1], greater)
    shown = (row.ended_ms, row.end_reason, row.revision, row.foreground_s, row.account_id, row.platform)
    assert shown == (
        greater.ended_ms,
        REPORTED if greater.end_reason is ORPHANED else greater.end_reason,  # its Start is known
        greater.revision,
        greater.foreground_s,
        greater.account_id,
        greater.platform,
    )


def test_an_end_is_shown_no_earlier_than_the_start() -> None:
    row = session_row(started(1, NINE), ended(1, None, EIGHT, ORPHANED))
    assert (row.started_ms, row.ended_ms, row.duration_ms) == (NINE, NINE, 0)
    row = session_row(started(1, NINE), ended(1, None, NINE + 1, ORPHANED))
    assert (row.started_ms, row.ended_ms, row.duration_ms) == (NINE, NINE + 1, 1)


def test_an_end_of_a_forgotten_session_reads_reported_once_its_start_is_known() -> None:
    late_end = ended(1, None, TEN, ORPHANED, foreground_s=60)
    reported = replace(ROW, foreground_s=60)
    assert session_row(started(1, NINE), late_end) == reported
    assert session_row(started(1, NINE), ended(1, NINE, ELEVEN, TIMED_OUT), late_end) == reported
    assert session_row(ended(1, NINE, ELEVEN, SUPERSEDED, revision=3), late_end) == reported, "its Start is known"


def test_an_end_of_a_forgotten_session_ranks_below_an_end_that_came_in_time() -> None:
    in_time = ended(1, NINE, TEN, REPORTED, foreground_s=60)
    late_end = ended(1, None, NOON, ORPHANED, revision=7, foreground_s=99)
    assert session_row(started(1, NINE), in_time, late_end) == replace(ROW, foreground_s=60)


def test_account_and_platform_come_from_the_start_or_from_the_end_shown() -> None:
    row = session_row(started(1, NINE, "anna", CONSOLE), ended(1, NINE, TEN, account_id="ben", platform=PC))
    assert (row.account_id, row.platform) == ("anna", CONSOLE)
    row = session_row(started(1, NINE, None, CONSOLE), ended(1, NINE, TEN, account_id="ben", platform=PC))
    assert (row.account_id, row.platform) == ("ben", CONSOLE)
    row = session_row(ended(1, None, TEN, ORPHANED, account_id="ben", platform=CONSOLE))
    assert (row.account_id, row.platform) == ("ben", CONSOLE)
    row = session_row(started(1, NINE), ended(1, NINE, TEN), ended(1, NINE, TEN, SUPERSEDED, account_id="guess"))
    assert row.account_id is None


@pytest.mark.parametrize(
    ("smaller", "greater"),
    [
        (started(1, NINE, "z", PC), started(1, TEN, "a", CONSOLE)),
        (started(1, NINE, "Z", PC), started(1, NINE, "a", CONSOLE)),
        (started(1, NINE, "a", CONSOLE), started(1, NINE, "a", PC)),
        (started(1, NINE, None, PC), started(1, NINE, None, PC)),
    ],
)
def test_account_and_platform_come_from_the_smallest_of_several_starts(smaller: Change, greater: Change) -> None:
    row = session_row(smaller, greater)
    assert (row.started_ms, row.account_id, row.platform) == (NINE, smaller.account_id, smaller.platform)


def test_updated_at_is_the_newest_processing_time_of_starts_and_ends() -> None:
    assert session_row(at(NOW + 9, started(1, NINE)), at(NOW + 5, ended(1, NINE, TEN))).updated_ms == NOW + 9
