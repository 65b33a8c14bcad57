"""`sessions` after merges: by examples, and by the reference for changes in any order and merged twice.

The rules are in docs/session-rules.md, "The `sessions` table".
"""

import random
from dataclasses import astuple, dataclass, replace
from itertools import combinations, pairwise
from operator import attrgetter
from pathlib import Path

import pytest
from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrame, Row, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.errors import StreamError
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.spark.tables import rollup
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.support.changes import T, expected_values, frame, random_changes, session_values
from tests.support.histories import (
    CONSOLE,
    EIGHT,
    ELEVEN,
    HOUR,
    INACTIVE,
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
from tests.support.reference_sessions import SessionRow
from tests.support.warehouse import empty_tables, merge_changes

pytestmark = pytest.mark.spark

LABELS = ("title", "order")
NO_LABELS = (None, None)


START = Change(0, "ann", Platform.PC, ChangeKind.STARTED, T, T)
END = START._replace(kind=ChangeKind.ENDED, account_id=None)
BY_TIMEOUT = END._replace(processed_ms=T + 9, end_reason=EndReason.TIMED_OUT, ended_ms=T + 9_000, revision=1)
CAME_LATE = END._replace(processed_ms=T + 8, started_ms=None, end_reason=EndReason.ORPHANED, ended_ms=T + 3_000)
IN_TIME = END._replace(end_reason=EndReason.REPORTED, ended_ms=T + 2_000)

PARTS = [part for size in range(5) for part in combinations((START, BY_TIMEOUT, CAME_LATE, IN_TIME), size)]
SPLITS = [(first, second) for first in PARTS for second in PARTS if first or second]
"""Each way in which two merges can bring the changes of one session, also a change that both bring."""

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
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1, account_id="a")._replace(labels=(None, "z")),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1, account_id="a")._replace(labels=("chess", "a")),
    ended(1, NINE, NINE + 1, REPORTED, revision=2, foreground_s=1, account_id="a")._replace(labels=("chess", "b")),
]


def row_of(end: Change) -> SessionRow:
    """The row of a session that began at nine, and of which this end is shown."""
    assert end.ended_ms is not None
    reason = REPORTED if end.end_reason is ORPHANED else end.end_reason  # its Start is known
    fields = end.ended_ms, end.ended_ms - NINE, end.foreground_s, reason, end.revision, NOW
    return SessionRow(end.account_id, end.platform, "ended", NINE, *fields, end.labels)


LIVE = SessionRow(None, PC, "live", NINE, None, None, None, None, 0, NOW)
OVER = SessionRow(None, PC, "ended", NINE, TEN, HOUR, None, REPORTED, 0, NOW)
LONGER = replace(OVER, foreground_s=60)
BARE_START, NAMED_START = started(1, NINE), started(1, NINE, "anna", CONSOLE)
OF_BEN = ended(1, NINE, TEN, account_id="ben")
LATE_END = ended(1, None, TEN, ORPHANED, foreground_s=60)
INACTIVE_END = ended(1, NINE, NINE + 1, INACTIVE)
RESUMED = started(1, NINE)._replace(kind=ChangeKind.RESUMED, revision=1, duration_ms=None)
AGAIN_INACTIVE = replace(OVER, end_reason=INACTIVE, revision=2)
EXAMPLES: list[tuple[tuple[Change, ...], SessionRow]] = [
    *((pair, row_of(pair[1])) for pair in pairwise(ENDS)),
    ((NAMED_START,), replace(LIVE, account_id="anna", platform=CONSOLE)),
    # It is never live again, and `updated_at` is of the newest change.
    (
        (BARE_START, ended(1, NINE, TEN, foreground_s=60), BARE_START._replace(processed_ms=NOW + HOUR)),
        replace(LONGER, updated_ms=NOW + HOUR),
    ),
    ((BARE_START, ended(1, NINE, TEN)._replace(processed_ms=NOW + 5)), replace(OVER, updated_ms=NOW + 5)),
    # Without a Start.
    ((ended(1, NINE, TEN),), OVER),
    ((LATE_END,), replace(LONGER, started_ms=None, duration_ms=None, end_reason=ORPHANED)),
    # An End of a forgotten session: no earlier than the Start, reported once that is known, below one that is in time.
    ((BARE_START, ended(1, None, EIGHT, ORPHANED)), replace(OVER, ended_ms=NINE, duration_ms=0)),
    ((BARE_START, ended(1, None, NINE + 1, ORPHANED)), replace(OVER, ended_ms=NINE + 1, duration_ms=1)),
    ((BARE_START, LATE_END), LONGER),
    ((BARE_START, ended(1, NINE, ELEVEN, TIMED_OUT), LATE_END), LONGER),
    ((ended(1, NINE, ELEVEN, SUPERSEDED, revision=3), LATE_END), LONGER),
    (
        (BARE_START, ended(1, NINE, TEN, foreground_s=60), ended(1, None, NOON, ORPHANED, revision=7, foreground_s=99)),
        LONGER,
    ),
    # Of two such Ends the later one, in whatever order they came.
    ((BARE_START, ended(1, None, TEN - 1, ORPHANED, foreground_s=99), LATE_END), LONGER),
    ((BARE_START, LATE_END, ended(1, None, TEN - 1, ORPHANED, foreground_s=99)), LONGER),
    # Account and platform are those of the Start, or of the end shown.
    ((NAMED_START, OF_BEN), replace(OVER, account_id="anna", platform=CONSOLE)),
    ((started(1, NINE, None, CONSOLE), OF_BEN), replace(OVER, account_id="ben", platform=CONSOLE)),
    (
        (ended(1, None, TEN, ORPHANED, account_id="ben", platform=CONSOLE),),
        SessionRow("ben", CONSOLE, "ended", None, TEN, None, None, ORPHANED, 0, NOW),
    ),
    ((BARE_START, ended(1, NINE, TEN), ended(1, NINE, TEN, SUPERSEDED, account_id="guess")), OVER),
    # Of several Starts the smallest counts.
    ((started(1, NINE, "z", PC), started(1, TEN, "a", CONSOLE)), replace(LIVE, account_id="z")),
    ((started(1, NINE, "Z", PC), started(1, NINE, "a", CONSOLE)), replace(LIVE, account_id="Z")),
    ((NAMED_START, started(1, NINE, "anna", PC)), replace(LIVE, account_id="anna", platform=CONSOLE)),
    ((BARE_START, BARE_START), LIVE),
    # Nulls come last.
    ((started(1, NINE, "z", PC), BARE_START), replace(LIVE, account_id="z")),
    ((BARE_START, BARE_START._replace(labels=(None, "DE"))), replace(LIVE, labels=(None, "DE"))),
    # A session that was resumed is live until its next end; its own row says no reason, time or revision.
    ((BARE_START, INACTIVE_END, RESUMED), LIVE),
    ((RESUMED, INACTIVE_END), LIVE),
    ((RESUMED,), LIVE),
    ((BARE_START, INACTIVE_END, RESUMED, ended(1, NINE, TEN)._replace(revision=2)), replace(OVER, revision=2)),
    ((BARE_START, INACTIVE_END, RESUMED, ended(1, NINE, TEN, INACTIVE, revision=2)), AGAIN_INACTIVE),
    ((BARE_START, RESUMED, LATE_END), LONGER),
    # Title and kept values are each by itself those of the Start, or of the end shown.
    ((BARE_START._replace(labels=("chess", None)),), replace(LIVE, labels=("chess", None))),
    (
        (BARE_START._replace(labels=("chess", None)), ended(1, NINE, TEN)._replace(labels=("go", "DE"))),
        replace(OVER, labels=("chess", "DE")),
    ),
    ((LATE_END._replace(labels=("go", None)), BARE_START), replace(LONGER, labels=("go", None))),
    (
        (BARE_START._replace(labels=("go", "DE")), BARE_START._replace(labels=("chess", "US"))),
        replace(LIVE, labels=("chess", "US")),
    ),
]


@dataclass(frozen=True)
class Merged:
    """A table after two merges, and after the second one again."""

    changes: list[tuple[str, Change]]
    sessions: DataFrame
    history: list[Row]
    """The commits of the second merge and of its repetition; only the former, where the latter made none."""


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.long)])
def merged(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Merged:
    """A session of the device `d` for each of `SPLITS`, one of `example` for each of `EXAMPLES`, others at random."""
    location = empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse")), owner="test")
    fit_to_events(spark, location, package_map(DEFAULT), LABELS)
    changes = random_changes(request.param, 120)
    merges = [changes[:80], changes[40:]]
    for session_id, parts in enumerate(SPLITS):
        for merge, part in zip(merges, parts, strict=True):
            merge += [("d", change._replace(session_id=session_id, labels=NO_LABELS)) for change in part]
    for session_id, (its_changes, _) in enumerate(EXAMPLES):
        for merge, part in zip(merges, (its_changes[::2], its_changes), strict=True):
            merge += [
                ("example", change._replace(session_id=session_id, labels=change.labels or NO_LABELS))
                for change in part
            ]
    for merge in merges:
        random.Random(request.param).shuffle(merge)
    for merge in (*merges, merges[-1]):
        merge_changes(spark, location, frame(spark, merge, LABELS))
    history = (
        location.delta_table(spark, SESSIONS).history().where("operation = 'MERGE'").orderBy("version").collect()[1:]
    )
    return Merged(merges[0] + merges[1], location.read(spark.read, SESSIONS), history)


def test_any_order_and_any_repetition_gives_the_reference_table(merged: Merged) -> None:
    found = session_values(merged.sessions)
    assert found == expected_values(merged.changes)
    for session_id, (first, second) in enumerate(SPLITS):
        if {START, CAME_LATE} <= {*first, *second}:
            assert found["d", session_id][7] == "reported", "the End came after its session was forgotten"
            ended_ms = T + 2_000 if IN_TIME in first + second else T + 3_000
            assert found["d", session_id][4] == ended_ms, "an End that came in time is greater"
    assert found["d", SPLITS.index(((CAME_LATE,), ()))][7] == "orphaned"


def test_a_row_shows_what_the_rules_say(merged: Merged) -> None:
    found = session_values(merged.sessions.where("device_id = 'example'"))
    for session_id, (changes, row) in enumerate(EXAMPLES):
        assert found["example", session_id] == astuple(replace(row, labels=row.labels or NO_LABELS)), changes


def test_two_merges_give_the_rows_that_one_merge_gives(spark: SparkSession, merged: Merged) -> None:
    """This holds for the internal columns too. A third merge therefore finds what it would find after one merge."""
    at_once = rollup.to_session_rows(rollup.fold_by_session(frame(spark, merged.changes, LABELS), LABELS))
    found, expected = (
        sorted(rows.select(*SESSIONS.column_names, *LABELS).collect(), key=attrgetter("device_id", "session_id"))
        for rows in (merged.sessions, at_once)
    )
    assert found == expected


def test_orphaned_ends_alone_have_an_oldest_event(spark: SparkSession) -> None:
    assert rollup.oldest_event_ms(frame(spark, [("d", CAME_LATE)])) == CAME_LATE.ended_ms


def test_a_merge_that_changes_nothing_rewrites_nothing(merged: Merged) -> None:
    second, *repeated = merged.history
    assert int(second.operationMetrics["numTargetRowsInserted"]) > 0
    assert int(second.operationMetrics["numTargetRowsUpdated"]) > 0
    written = [
        int(commit.operationMetrics[f"numTargetRows{kind}"])
        for commit in repeated
        for kind in ("Updated", "Inserted", "Deleted")
    ]
    assert sum(written) == 0


def test_a_version_of_delta_whose_merge_returns_nothing_is_named(
    merged: Merged, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = empty_tables(spark, TableLocation(tmp_path), owner="test")
    monkeypatch.setattr(DeltaMergeBuilder, "execute", lambda _merge: None)
    with pytest.raises(StreamError, match="returned no counts, so this version of Delta is too old"):
        merge_changes(spark, location, frame(spark, merged.changes[:1]))
