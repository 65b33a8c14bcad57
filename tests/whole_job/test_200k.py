"""A folder full of dirty events: the tables equal those of the reference, and every line is accounted for.

SESSIONIZATION_E2E_EVENTS=200000 gives the test its size and its name; by default it is a tenth of that.
"""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.support.accounts import Session, unaccounted, unaccounted_ends
from tests.support.evening import Evening
from tests.support.job import Job
from tests.support.oracle import Oracle, build_oracle
from tests.support.state import Entry, entries_and_timers
from tests.support.tables import Tables, differences, read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

EVENTS = int(os.environ.get("SESSIONIZATION_E2E_EVENTS", "20000"))
# Four minutes of an evening at any size, so that files and sessions per device stay the same.
RATE = EVENTS / 200
EVENING = {"rate": RATE, "session_length": "10s", "devices": round(8 * RATE), "dirt": 0.2, "file_interval": "400ms"}


@dataclass(frozen=True)
class Run:
    """A job after its stop, the oracle's tables, the job's tables and its state."""

    job: Job
    oracle: Oracle
    tables: Tables
    entries: list[Entry]

    @property
    def waiting(self) -> list[Session]:
        """The pending Ends."""
        return [(device_id, session_id) for device_id, session_id, status in self.entries if status == "pending_end"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Run:
    folder: Path = tmp_path_factory.mktemp("folder")
    evening = Evening(folder / "staging", events=EVENTS, **EVENING)
    job = Job(folder)
    evening.release(job.input, len(evening))
    job.run_until_done()
    entries, _ = entries_and_timers(spark, job.checkpoints)
    return Run(job, build_oracle(job.checkpoints, Rules()), read_tables(job.warehouse), entries)


def test_every_line_of_the_input_is_archived_once(run: Run) -> None:
    assert len(run.tables["raw_events"]) == EVENTS
    files = run.job.input.glob("*/*.json")
    lines = Counter((path.parent.name, line) for path in files for line in path.read_bytes().splitlines())
    assert Counter((row["stream"], row["value"]) for row in run.tables["raw_events"]) == lines


def test_tables_equal_the_reference(run: Run) -> None:
    assert differences(run.oracle, run.tables, run.job.checkpoints) == []
    assert {row["status"] for row in run.tables["sessions"]} == {"live", "ended"}


def test_every_message_is_accounted_for(run: Run) -> None:
    """Each message is a change, a counted repeat, a pending End in the state, or in quarantine."""
    assert run.waiting
    assert unaccounted(run.tables, run.waiting) == []
    assert unaccounted_ends(run.tables, run.waiting) == 0


def test_the_state_equals_the_reference(run: Run) -> None:
    assert Counter(run.entries) == Counter(run.oracle.entries)
    assert {status for _, _, status in run.entries} == {"live", "closed", "pending_end"}
