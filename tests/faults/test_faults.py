"""The job is killed at every boundary of a micro-batch, and its tables equal those of an undisturbed job."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.core.events import EndReason
from tests.support.boundaries import Boundary
from tests.support.harness import Run, compare, play
from tests.support.oracle_columns import COLUMNS
from tests.support.tables import differences_in
from tests.support.wire import REASONS

pytestmark = pytest.mark.job

SEED = 20_260_101
KILLS = len(Boundary)
# The counts of Starts of ended sessions have tests of their own (tests/output/test_sinks.py).
UNCHECKED = {("stream_progress", name) for name in ("state_bytes", "reused_ids", "late_starts")}
# The boundaries that last long enough for a kill to hit them.
HIT = {
    Boundary.OFFSET_LOGGED,
    Boundary.STATE_COMMITTED,
    Boundary.CHANGES_COMMITTED,
    Boundary.RAW_EVENTS_COMMITTED,
    Boundary.MERGING,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return play(SEED, KILLS, tmp_path_factory.mktemp("killed"))


class Altered(list[dict[str, Any]]):
    """Rows that a test has changed, in place of a table's."""

    def of(self, *names: str) -> Iterator[tuple[Any, ...]]:
        return (tuple(row[name] for name in names) for row in self)


def test_sigterm_ends_the_job_with_code_0_and_a_summary(run: Run) -> None:
    # `Job.terminate` checks that this took less than a minute and left no process behind.
    assert run.exit_code == 0, run.job.output_lines()[-8:]
    assert any(line.startswith("sessionize: sessionized ") for line in run.job.output_lines()[-8:])


def test_the_kills_left_unfinished_micro_batches(run: Run) -> None:
    assert len(run.cuts) == KILLS
    assert {cut.boundary for cut in run.cuts if cut.is_exact} >= HIT


def test_a_job_whose_engine_dies_says_so_and_ends_with_code_1(run: Run) -> None:
    [death] = run.engine_deaths
    assert death.code == 1
    [line] = death.lines
    assert line.startswith("sessionize: the engine has died (")
    assert line.endswith("nothing is lost: start again with the same options")


def test_tables_state_and_timers_equal_the_reference_and_every_message_is_accounted_for(
    run: Run, spark: SparkSession
) -> None:
    """Each message is archived, and is in quarantine or an event: a start, an end, a pending End or a repeat."""
    assert compare(run, spark) == []


def test_the_evening_needed_every_rule(run: Run) -> None:
    """The equality above proves something only if the evening contains every case."""
    changes, progress = run.actual["session_changes"], run.actual["stream_progress"]
    assert {change["end_reason"] for change in changes} == {None, *EndReason} - {EndReason.INACTIVE}
    assert max(change["revision"] for change in changes) > 0
    assert max(change["missed_beats"] or 0 for change in changes) > 0
    assert {row["reason"] for row in run.actual["quarantine"]} == REASONS
    for name in ("duplicate_start", "duplicate_end", "evicted"):
        assert sum(row[name] or 0 for row in progress) > 0
    remembered = {(device_id, session_id) for device_id, session_id, _ in run.oracle.entries}
    assert remembered < {(row["device_id"], row["session_id"]) for row in run.actual["sessions"]}


@pytest.mark.parametrize("table", COLUMNS)
@pytest.mark.parametrize("times", [0, 2])
def test_a_dropped_or_doubled_row_is_found(run: Run, table: str, times: int) -> None:
    for place in (0, len(run.actual[table]) // 2, -1):
        rows = list(run.actual[table])
        rows += [rows.pop(place)] * times
        assert differences_in(table, run.oracle, run.actual | {table: Altered(rows)}, run.job.checkpoints)


@pytest.mark.parametrize("table", COLUMNS)
def test_an_altered_value_is_found(run: Run, table: str) -> None:
    rows = list(run.actual[table])
    # The row with the most values that are not null.
    place = max(range(len(rows)), key=lambda at: sum(value is not None for value in rows[at].values()))
    unnoticed = []
    for name, value in rows[place].items():
        altered = Altered([*rows[:place], rows[place] | {name: _altered(value)}, *rows[place + 1 :]])
        if not differences_in(table, run.oracle, run.actual | {table: altered}, run.job.checkpoints):
            unnoticed.append((table, name))
    assert set(unnoticed) <= UNCHECKED


def _altered(value: Any) -> Any:
    match value:
        case None:
            return 1
        case str():
            return f"{value}x"
        case bytes():
            return value + b" "
        case _:
            return value + 1
