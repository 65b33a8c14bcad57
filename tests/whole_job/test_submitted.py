"""The job under spark-submit: the session is the caller's, and the tables are those of a job with its own session."""

import os
import signal
from pathlib import Path

import pytest

from sessionization.core.session_state import Rules
from sessionization_laptop.engine.jars import jar_paths
from tests.support.evening import Evening
from tests.support.job import Job
from tests.support.oracle import build_oracle
from tests.support.tables import differences, read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

RULES = Rules(heartbeat_ms=5_000)
STATE_PARTITIONS = (os.cpu_count() or 2) + 1  # a local session would take one per core
CALLERS_EXTENSION = "studio.Extension"  # Spark warns that it cannot load it, by its name
CALLERS_CONF = {
    "spark.sql.shuffle.partitions": str(STATE_PARTITIONS),
    "spark.sql.extensions": CALLERS_EXTENSION,
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    # For a quick test, as a local session has them.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


def test_a_submitted_job_keeps_the_callers_settings_and_no_stop_loses_or_doubles_a_row(tmp_path: Path) -> None:
    """SIGTERM to the engine and Ctrl-C end Spark at once; after both the tables are those of the reference."""
    evening = Evening(tmp_path / "staging", duration="10s", rate=20, session_length="10s", dirt=0.2, file_interval="2s")
    job = Job(tmp_path, "--heartbeat=5s")
    job.submit_options = ("--master=local[2]", f"--jars={','.join(map(str, jar_paths('spark')))}")
    job.conf = CALLERS_CONF
    with job:
        # After Ctrl-C either the engine ends first, with 130, or the job, which stops its queries and ends with 0.
        for stop, number, codes in ((os.kill, signal.SIGTERM, {143}), (os.killpg, signal.SIGINT, {130, 0})):
            evening.release(job.input, len(evening) // 2)
            job.start()
            job.wait_for_running_micro_batch()
            stop(job.pid, number)  # of the engine; and of the whole group, as Ctrl-C in a terminal
            assert job.wait_for_end() in codes
    evening.release(job.input)
    job.run_until_done()
    assert len(list((job.checkpoints / "sessionize" / "state" / "0").glob("[0-9]*"))) == STATE_PARTITIONS
    assert any(CALLERS_EXTENSION in line for line in job.output_lines())
    assert differences(build_oracle(job.checkpoints, RULES), read_tables(job.warehouse), job.checkpoints) == []
