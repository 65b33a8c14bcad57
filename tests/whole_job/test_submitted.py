"""The job under spark-submit: the session is the caller's, and the tables are those of a job with its own session."""

from pathlib import Path

import pytest

from sessionization.core.session_state import Rules
from sessionization.local_engine.jars import jar_paths
from tests.whole_job.evening import Evening
from tests.whole_job.job import Job
from tests.whole_job.oracle import build_oracle
from tests.whole_job.tables import differences, read_tables

pytestmark = pytest.mark.job

RULES = Rules(heartbeat_ms=5_000)
CALLERS_CONF = {
    "spark.sql.shuffle.partitions": "3",
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    # For a quick test, as a local session has them.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def test_a_submitted_job_keeps_the_callers_settings_and_writes_the_tables_of_the_reference(tmp_path: Path) -> None:
    evening = Evening(tmp_path / "staging", events=200, rate=20, session_length="10s", dirt=0.2, file_interval="2s")
    job = Job(tmp_path, "--heartbeat=5s")
    job.submit = ("--master=local[2]", f"--jars={','.join(map(str, jar_paths('spark')))}")
    job.conf = CALLERS_CONF
    evening.release(job.input)
    try:
        job.start()
        job.wait_until_done()
        assert job.terminate() == 0, job.output_lines()[-3:]
    finally:
        job.kill_if_running()
    assert len(list((job.checkpoints / "sessionize" / "state" / "0").glob("[0-9]*"))) == 3
    tables = read_tables(job.warehouse)
    assert differences(build_oracle(job.checkpoints, RULES), tables, job.checkpoints) == []
