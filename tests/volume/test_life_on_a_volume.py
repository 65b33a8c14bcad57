"""The life of a deployment on a volume: every job runs there, a checkpoint is lost, and the tables stay right."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from sessionization.durations import HOUR_MS
from tests.support.job import ROOT
from tests.support.oracle import Oracle, build_oracle
from tests.support.oracle_columns import COLUMNS
from tests.support.state import entries_and_timers, late_timers
from tests.support.tables import differences, read_tables, split_progress
from tests.support.volume import VolumeJob, run_on_volume

pytestmark = [pytest.mark.job, pytest.mark.long]

RULES = Rules(heartbeat_ms=2_000, session_timeout_ms=600_000, late_retention_ms=20_000, max_sessions_per_device=8)
OPTIONS = (
    "--trigger=2s", "--heartbeat=2s", "--session-timeout=10m", "--late-retention=20s", "--max-sessions-per-device=8",
)  # fmt: skip
EVENING = (
    "--pace=max", "--rate=5", "--session-length=40s", "--devices=200", "--dirt=0.3", "--file-interval=10s",
    "--duration=60s",
)  # fmt: skip
FORGOTTEN_MS = RULES.late_retention_ms + 10 * RULES.heartbeat_ms
ASIDE = re.compile(r"^ {3}```\n(   import os\n.*?)^ {3}```", re.MULTILINE | re.DOTALL)


class Deployment(VolumeJob):
    """The stream on a volume, and the other jobs, each of which must end well."""

    def __init__(self, folder: Path, groups: int | None) -> None:
        super().__init__(folder, *OPTIONS, *(() if groups is None else (f"--device-groups={groups}",)))
        self._groups = groups
        self.conf = {"spark.sql.shuffle.partitions": "2"}
        self._seed = 0

    def simulate(self) -> None:
        """Let other players play in the last minute or two."""
        self._seed += 1
        ended = self.run("simulate", f"--output={self.input}", f"--seed={self._seed}", *EVENING)
        assert ended.code == 0, ended.lines

    def catch_up(self) -> None:
        """Start the stream, and stop it with everything read, committed and merged."""
        self.start()
        self.wait_until_done()
        self.come_to_rest()

    def do(self, name: str, *options: str) -> None:
        """Run another job on the tables and the checkpoint."""
        ended = self.run_beside(name, *options)
        assert ended.code == 0, (name, ended.lines)

    def expected(self, spark: SparkSession, former: Oracle | None = None) -> Oracle:
        """Compute the oracle's tables; check state, timers and files against it here."""
        oracle = build_oracle(self.checkpoints, RULES, groups=self._groups, former=former)
        entries, timers = entries_and_timers(spark, self.checkpoints)
        assert Counter(entries) == Counter(oracle.entries)
        assert late_timers(timers, oracle.timers) == []
        files = Counter(self.input.glob("*_sessions/*.json"))
        assert [Counter(read) for read in oracle.files.values()] == [files, files]
        return oracle


@pytest.fixture(params=[None, 8], ids=["devices", "groups"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployment]:
    with Deployment(tmp_path, request.param) as deployment:
        yield deployment


def follow_the_runbook(deployment: Deployment, spark: SparkSession) -> None:
    """Do what docs/runbook.md says under "The checkpoint is lost", with `dbutils` that copies and deletes."""
    [snippet] = ASIDE.findall((ROOT / "docs" / "runbook.md").read_text(encoding="utf-8"))
    code = re.sub("^   ", "", snippet, flags=re.MULTILINE)
    code = code.replace("CATALOG.SCHEMA.raw_events", f"delta.`{deployment.warehouse}/raw_events`")
    dbutils = SimpleNamespace(fs=SimpleNamespace(mv=lambda source, to, _recurse=False: shutil.move(source, to)))
    exec(code, {"spark": spark, "dbutils": dbutils, "L": str(deployment.input)})
    dbutils.fs.mv(str(deployment.checkpoints), f"{deployment.checkpoints}.lost", True)
    deployment.more = ("--from-sessions",)


def an_account_that_is_forgotten(deployment: Deployment) -> str:
    """An account without a session that the state may still hold."""
    rows = list(read_tables(deployment.warehouse)["sessions"])
    until_ms = max(row["updated_ms"] for row in rows) - FORGOTTEN_MS
    recent = {row["account_id"] for row in rows if row["status"] == "live" or row["updated_ms"] > until_ms}
    return min({row["account_id"] for row in rows} - recent - {None})


def test_every_job_runs_on_a_volume_and_the_tables_equal_the_reference(
    deployment: Deployment, tmp_path: Path, spark: SparkSession
) -> None:
    days = f"--from={(datetime.now(UTC) - timedelta(days=1)).date()}"
    deployment.simulate()
    deployment.start()
    deployment.wait_for_running_micro_batch()
    deployment.kill()
    deployment.simulate()
    deployment.catch_up()

    deployment.do("maintain")
    deployment.do("inspect_state")
    deployment.do("backfill", days, "--verify")
    deployment.do("rescale_state", "--partitions=5")
    deployment.simulate()
    deployment.catch_up()
    former, before = deployment.expected(spark), read_tables(deployment.warehouse)
    assert differences(former, before, deployment.checkpoints) == []

    follow_the_runbook(deployment, spark)
    assert list(deployment.input.glob("*_sessions/*.json")) == []
    deployment.simulate()
    deployment.catch_up()
    oracle = deployment.expected(spark, former)
    tables, former_progress = split_progress(read_tables(deployment.warehouse), deployment.checkpoints)
    assert differences(oracle, tables, deployment.checkpoints) == []
    names = COLUMNS["stream_progress"]
    assert Counter(former_progress.of(*names)) == Counter(before["stream_progress"].of(*names))

    account = an_account_that_is_forgotten(deployment)
    deployment.do("erase_account", f"--account={account}")
    after = read_tables(deployment.warehouse)
    for name in ("sessions", "session_changes"):
        assert Counter(row["account_id"] for row in after[name]) == Counter(
            row["account_id"] for row in tables[name] if row["account_id"] != account
        )
    assert ended_input(deployment, tmp_path) == []


def ended_input(deployment: Deployment, folder: Path) -> list[Path]:
    """The input files that are left once their retention is over."""
    ended = run_on_volume(
        "import threading\n"
        "from sessionization.clock import wall_clock_ms\n"
        "from sessionization.ops.input_files import delete_read_files\n"
        f"delete_read_files(VOLUME / 'checkpoints', 0, wall_clock_ms() + {HOUR_MS}, threading.Event())\n",
        deployment.checkpoints.parent,
        folder,
    )
    assert ended.returncode == 0, ended.stderr
    return list(deployment.input.glob("*_sessions/*.json"))
