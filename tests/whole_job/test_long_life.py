"""A long life of a job: 2 -> 5 -> 3 partitions, a lost checkpoint.

The tables equal the oracle's throughout.
"""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.checkpoint.spark_logs import newest_committed_batch, read_started_batch
from tests.support.checkpoints import committed_files
from tests.support.evening import Evening
from tests.support.job import ROOT, Job, run_to_end
from tests.support.long_life import OPTIONS, RULES
from tests.support.oracle import COLUMNS, Oracle, build_oracle
from tests.support.state import entries_and_timers, late_timers
from tests.support.tables import differences, read_tables, split_progress

pytestmark = pytest.mark.job

# Sessions that last across one or two stops, and many sessions per device.
EVENING = {
    "seed": 7, "rate": 8, "session_length": "60s", "devices": 400, "dirt": 0.3, "file_interval": "10s",
    "duration": "400s",
}  # fmt: skip
PARTS = 4


class Life:
    """An evening in parts, the job that receives it, and the tables that must result."""

    def __init__(self, folder: Path, groups: int | None) -> None:
        self._folder, self._groups = folder, groups
        grouping = () if groups is None else (f"--device-groups={groups}",)
        self._evening = Evening(folder / "staging", **EVENING)
        self._files = -(-len(self._evening) // PARTS)
        self.job = Job(folder, *OPTIONS, *grouping)
        self.job.conf = {"spark.sql.shuffle.partitions": "2"}

    def play(self, partitions: int, *, to_the_end: bool = False) -> None:
        """Play the next part to a job that has this number of state partitions; stop it between two micro-batches.

        With `to_the_end`, the tables hold everything that follows from the input when the job stops.
        """
        job, query = self.job, self.job.checkpoints / "sessionize"
        newest = newest_committed_batch(query)
        at_start = self._files // 2
        self._evening.release(job.input, at_start)
        job.start()
        job.wait_until(lambda: newest_committed_batch(query) > newest, "the first micro-batch")
        self._evening.release(job.input, self._files - at_start)
        if to_the_end:
            job.wait_until_done()
            job.come_to_rest("sessionize", "archive")
        else:
            files = set(job.input.glob("*/*.json"))
            job.wait_until(lambda: committed_files(query) == files, "the part is read", poll_s=0.2)
            job.come_to_rest("sessionize")
        assert read_started_batch(query, newest_committed_batch(query)).partitions == partitions

    def rescale(self, partitions: int) -> None:
        options = ("--checkpoints", str(self.job.checkpoints), f"--partitions={partitions}")
        ended = run_to_end(*options, cwd=self._folder, entry=(ROOT / "jobs" / "rescale_state.py",))
        assert ended.code == 0, ended.lines
        assert any(f"in {partitions} partitions, the same as before" in line for line in ended.lines)

    def lose_checkpoint(self) -> None:
        """Let the next start create a checkpoint, with the existing tables and only input that was not read yet."""
        self.job.checkpoints.rename(self._folder / "lost")
        self.job.input = self._folder / "input-after"
        self.job.input.mkdir()
        self.job.more = ("--from-sessions",)

    def expected(self, spark: SparkSession, former: Oracle | None = None) -> Oracle:
        """Compute the oracle's tables; check state, timers and files against it here."""
        oracle = build_oracle(self.job.checkpoints, RULES, groups=self._groups, former=former)
        entries, timers = entries_and_timers(spark, self.job.checkpoints)
        assert Counter(entries) == Counter(oracle.entries)
        assert late_timers(timers, oracle.timers) == []
        files = Counter(self.job.input.glob("*/*.json"))
        assert [Counter(read) for read in oracle.files.values()] == [files, files]
        return oracle


@pytest.mark.long
@pytest.mark.parametrize("groups", [8, None])
def test_tables_equal_the_reference_after_a_long_life(groups: int | None, tmp_path: Path, spark: SparkSession) -> None:
    life = Life(tmp_path, groups)
    job = life.job
    with job:
        life.play(partitions=2)
        life.rescale(5)
        life.play(partitions=5)
        life.rescale(3)
        life.play(partitions=3, to_the_end=True)
        former, before = life.expected(spark), read_tables(job.warehouse)
        assert differences(former, before, job.checkpoints) == []
        life.lose_checkpoint()
        life.play(partitions=2, to_the_end=True)

    oracle = life.expected(spark, former)
    tables, former_progress = split_progress(read_tables(job.warehouse), job.checkpoints)
    names = COLUMNS["stream_progress"]
    assert Counter(former_progress.of(*names)) == Counter(before["stream_progress"].of(*names))
    assert differences(oracle, tables, job.checkpoints) == []

    # The equality proves something only if sessions lived on, and the evening had every case.
    changes = tables["session_changes"]
    live = {key for key, row in former.session_rows(former.changes).items() if row.status == "live"}
    since = [row for row in changes if row["processed_ms"] > former.newest_ms]
    kinds = Counter(row["change"] for row in since if (row["device_id"], row["session_id"]) in live)
    assert kinds["started"] == 0
    assert min(kinds["heartbeat"], kinds["ended"]) > 0
    assert max(row["missed_beats"] or 0 for row in since) > 0
    assert sum(row["duplicate_start"] or 0 for row in tables["stream_progress"]) > 0
    assert {row["end_reason"] for row in changes} >= {"reported", "superseded", "orphaned"}
    assert max(row["revision"] for row in changes) > 0
