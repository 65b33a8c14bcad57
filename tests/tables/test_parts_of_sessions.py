"""`sessions` in parts: the live rows and a part for each day. A merge finds its rows and reads no older part."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.core.events import Change, ChangeKind, EndReason, Platform
from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.spark.tables import rollup
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.rollup import LIVE_PART
from sessionization.spark.tables.schemas import SESSIONS
from tests.support.changes import expected_values, frame, session_values
from tests.support.delta import live_files
from tests.support.warehouse import LOOKBACK_MS, empty_tables, merge_changes

pytestmark = pytest.mark.spark

NOON = int(datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp() * 1_000)
START = Change(1, "ann", Platform.PC, ChangeKind.STARTED, NOON, NOON)
END = START._replace(
    kind=ChangeKind.ENDED, processed_ms=NOON + HOUR_MS, ended_ms=NOON + HOUR_MS, end_reason=EndReason.REPORTED
)
ORPHAN = END._replace(started_ms=None, end_reason=EndReason.ORPHANED)


AFTER_MS = LOOKBACK_MS + 2 * DAY_MS


def started_at(change: Change, session_id: int, started_ms: int) -> Change:
    return change._replace(session_id=session_id, started_ms=started_ms)


def later(change: Change, by_ms: int) -> Change:
    """The change as the state takes its message again after `by_ms`, when the session was forgotten."""
    return change._replace(processed_ms=change.processed_ms + by_ms)


def sent_again(seed: int) -> tuple[list[Change], list[Change]]:
    """Two merges a week apart: sessions begin and end, and their messages come late, twice, or in the wrong order."""
    rng = random.Random(seed)
    merges: tuple[list[Change], list[Change]] = ([], [])
    for session_id in range(60):
        started_ms = NOON - rng.randrange(3 * DAY_MS)
        start = START._replace(session_id=session_id, started_ms=started_ms, processed_ms=NOON)
        end = start._replace(
            kind=ChangeKind.ENDED,
            end_reason=rng.choice([EndReason.REPORTED, EndReason.TIMED_OUT, EndReason.SUPERSEDED]),
            ended_ms=started_ms + rng.randrange(12 * HOUR_MS),
        )
        orphan = end._replace(started_ms=None, end_reason=EndReason.ORPHANED, ended_ms=started_ms + 12 * HOUR_MS)
        other_start = start._replace(started_ms=started_ms + rng.choice([-1, 1]) * rng.randrange(2 * DAY_MS))
        sent = rng.sample([start, end, orphan, other_start], rng.randint(1, 4))
        for position, change in enumerate(sent):
            merges[min(position, 1)].append(later(change, position * DAY_MS))
        merges[1].append(later(rng.choice(sent), 7 * DAY_MS))
    return merges


@dataclass(frozen=True)
class Merged:
    """A table after three merges: of a first day, of a week later, and of long after that."""

    parts: list[list[tuple[str, int, str]]]
    """After each merge, the parts of the sessions of the devices `d` and `again`."""
    sent_again: list[Change]
    """The changes of the device `r`."""
    sessions: DataFrame


@pytest.fixture(scope="module")
def merged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Merged:
    """The files of older parts are away during the last merge: a merge that reads them fails."""
    folder = tmp_path_factory.mktemp("warehouse")
    location = empty_tables(spark, TableLocation(folder), owner="test")

    def merge(**changes: list[Change]) -> None:
        rows = [(device, change) for device, of_device in changes.items() for change in of_device]
        merge_changes(spark, location, frame(spark, rows))

    def parts() -> list[tuple[str, int, str]]:
        rows = location.read(spark.read, SESSIONS).where("device_id != 'r'")
        return sorted(map(tuple, rows.select("device_id", "session_id", "_part").collect()))

    first, second = sent_again(seed=1)
    starts = [START, started_at(START, 2, NOON - DAY_MS), ORPHAN._replace(session_id=3)]
    merge(d=starts, again=[START, END], r=first)
    after_first = parts()
    new = later(started_at(START, 4, NOON + AFTER_MS), AFTER_MS)
    ends = [END, started_at(END, 2, NOON - DAY_MS), started_at(START, 3, NOON - DAY_MS)]
    merge(d=[*ends, new], r=second)
    after_second = parts()

    table, aside = folder / SESSIONS.name, folder / "aside"
    older = [name for name, file in live_files(table).items() if file["partitionValues"]["_part"] != LIVE_PART]
    for name in older:
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).rename(aside / name)
    new_end = new._replace(kind=ChangeKind.ENDED, end_reason=EndReason.REPORTED, ended_ms=NOON + AFTER_MS)
    merge(d=[new_end, new._replace(session_id=5)], again=[new._replace(session_id=1)])
    for name in older:
        (aside / name).rename(table / name)
    return Merged([after_first, after_second, parts()], first + second, location.read(spark.read, SESSIONS))


def test_messages_sent_again_after_days_find_their_row(merged: Merged) -> None:
    found = session_values(merged.sessions.where("device_id = 'r'"))
    assert found == expected_values([("r", change) for change in merged.sent_again])


def test_a_row_is_with_the_live_ones_and_then_with_the_day_of_its_start(merged: Merged) -> None:
    first, second, _ = ([part[1:] for part in parts if part[0] == "d"] for parts in merged.parts)
    assert first == [(1, "live"), (2, "live"), (3, "2026-11-20")]
    assert second == [(1, "2026-11-20"), (2, "2026-11-19"), (3, "2026-11-19"), (4, "live")]


def test_a_merge_reads_no_part_that_is_older_than_a_session_can_be(merged: Merged) -> None:
    assert [part for part in merged.parts[-1] if part[1] > 3] == [("d", 4, "2026-11-30"), ("d", 5, "live")]


def test_an_id_that_a_device_uses_again_after_longer_than_the_lookback_is_another_session(merged: Merged) -> None:
    again = [[part[1:] for part in parts if part[0] == "again"] for parts in merged.parts]
    assert again == [*[[(1, "2026-11-20")]] * 2, [(1, "2026-11-20"), (1, "live")]]


@pytest.mark.parametrize(
    ("oldest_ms", "lookback_ms", "since"),
    [
        (NOON, 0, "2026-11-19"),
        (NOON, 1, "2026-11-18"),
        (NOON, LOOKBACK_MS, "2026-11-11"),
        (0, 0, "1969-12-31"),
        (-1, 0, "1969-12-30"),
        (NOON, 10**15, "0001-01-01"),
    ],
)
def test_the_days_that_a_merge_searches(oldest_ms: int, lookback_ms: int, since: str) -> None:
    assert rollup.search_since(oldest_ms, lookback_ms) == since
