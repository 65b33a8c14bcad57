"""`sessions` depends neither on the order of the changes, nor on changes that are merged twice."""

import random
from dataclasses import dataclass
from itertools import combinations
from operator import attrgetter
from pathlib import Path

import pytest
from delta.tables import DeltaMergeBuilder
from pyspark.sql import DataFrame, Row, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.errors import StreamError
from sessionization.spark.tables import rollup
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSIONS
from tests.support.merged import T, expected_values, frame, session_values
from tests.support.warehouse import empty_tables, merge_changes

pytestmark = pytest.mark.spark


def random_changes(seed: int, count: int) -> list[tuple[str, Change]]:
    """Changes of few sessions, with ties, conflicts and nulls in every column that decides the order."""
    rng = random.Random(seed)
    changes = []
    for _ in range(count):
        started_ms = T + rng.randrange(3) * 1_000
        reason = rng.choice([None, *EndReason])
        ended_ms = None if reason is None else T + rng.randrange(4) * 1_000
        is_orphan = reason is EndReason.ORPHANED
        change = Change(
            session_id=rng.randrange(8),
            account_id=rng.choice([None, "ann", "bob", "😀", "\uffff"]),
            platform=rng.choice(list(Platform)),
            kind=ChangeKind.STARTED if reason is None else ChangeKind.ENDED,
            processed_ms=T + rng.randrange(10),
            started_ms=None if is_orphan else started_ms,
            end_reason=reason,
            revision=rng.randrange(2),
            ended_ms=ended_ms,
            foreground_s=rng.choice([None, 1, 2]) if reason else None,
        )
        changes.append((f"d{rng.randrange(3)}", change))
    return changes


START = Change(0, "ann", Platform.PC, ChangeKind.STARTED, T, T)
END = START._replace(kind=ChangeKind.ENDED, account_id=None)
TIMED_OUT = END._replace(processed_ms=T + 9, end_reason=EndReason.TIMED_OUT, ended_ms=T + 9_000, revision=1)
CAME_LATE = END._replace(processed_ms=T + 8, started_ms=None, end_reason=EndReason.ORPHANED, ended_ms=T + 3_000)
IN_TIME = END._replace(end_reason=EndReason.REPORTED, ended_ms=T + 2_000)

PARTS = [part for size in range(5) for part in combinations((START, TIMED_OUT, CAME_LATE, IN_TIME), size)]
SPLITS = [(first, second) for first in PARTS for second in PARTS if first or second]
"""Each way in which two merges can bring the changes of one session, also a change that both bring."""


@dataclass(frozen=True)
class Merged:
    """A table after two merges, and after the second one again."""

    changes: list[tuple[str, Change]]
    sessions: DataFrame
    history: list[Row]
    """The commits of the second merge and of its repetition; only the former, where the latter made none."""


@pytest.fixture(scope="module", params=[1, pytest.param(2, marks=pytest.mark.long)])
def merged(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Merged:
    """A session of the device `d` for each of `SPLITS`, and sessions of other devices at random."""
    location = empty_tables(spark, TableLocation(tmp_path_factory.mktemp("warehouse")), owner="test")
    changes = random_changes(request.param, 120)
    merges = [changes[:80], changes[40:]]
    for session_id, parts in enumerate(SPLITS):
        for merge, part in zip(merges, parts, strict=True):
            merge += [("d", change._replace(session_id=session_id)) for change in part]
    for merge in merges:
        random.Random(request.param).shuffle(merge)
    for merge in (*merges, merges[-1]):
        merge_changes(spark, location, frame(spark, merge))
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


def test_two_merges_give_the_rows_that_one_merge_gives(spark: SparkSession, merged: Merged) -> None:
    """This holds for the internal columns too. A third merge therefore finds what it would find after one merge."""
    at_once = rollup.to_session_rows(rollup.fold_by_session(frame(spark, merged.changes)))
    found, expected = (
        sorted(rows.select(SESSIONS.column_names).collect(), key=attrgetter("device_id", "session_id"))
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
