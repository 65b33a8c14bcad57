"""A folder full of dirty events, and a flood in single micro-batches: malformed messages, and sessions of one device.

SESSIONIZATION_E2E_SHARE=1 gives the test its full size: 200,000 dirty events, a million malformed messages and 100,000
sessions of one device. By default it is a twentieth of that.
"""

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.core.session_state import Rules
from tests.support import sent
from tests.support.accounts import unaccounted_ends
from tests.support.evening import ENDS_MS, Evening
from tests.support.harness import differences_of_job, pending_ends
from tests.support.job import Job
from tests.support.oracle import build_oracle
from tests.support.tables import read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

SHARE = float(os.environ.get("SESSIONIZATION_E2E_SHARE", "0.05"))
EVENTS, MALFORMED, SESSIONS = round(200_000 * SHARE), round(1_000_000 * SHARE), round(100_000 * SHARE)
# As long an evening at any size, so that files and sessions per device stay the same.
RATE = EVENTS / 200
EVENING = {
    "duration": "200s", "rate": RATE, "session_length": "10s", "devices": round(8 * RATE), "dirt": 0.2,
    "file_interval": "400ms",
}  # fmt: skip


def start(session_id: int) -> bytes:
    return sent.message(
        session_id, "Start", "one", datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=10 * session_id)
    )


def deliver(folder: Path, name: str, lines: list[bytes]) -> None:
    sent.deliver(folder, name, lines)
    os.utime(folder / f"{name}.json", ns=(0, (ENDS_MS + 3_600_000) * 1_000_000))


def test_every_line_of_a_full_folder_is_archived_once_and_accounted_for(tmp_path: Path, spark: SparkSession) -> None:
    job = Job(tmp_path)
    deliver(job.input / "pc_sessions", "malformed", [b'{"appSessionId":%d,' % number for number in range(MALFORMED)])
    deliver(job.input / "pc_sessions", "one-device", [start(number) for number in range(SESSIONS)])
    evening = Evening(tmp_path / "staging", **EVENING)
    evening.release(job.input)
    job.run_until_done()

    tables, oracle = read_tables(job.warehouse), build_oracle(job.checkpoints, Rules())
    assert differences_of_job(job, oracle, tables, spark) == []
    assert {row["status"] for row in tables["sessions"]} == {"live", "ended"}
    lines = Counter(
        (path.parent.name, line) for path in job.input.glob("*/*.json") for line in path.read_bytes().splitlines()
    )
    assert Counter((row["stream"], row["value"]) for row in tables["raw_events"]) == lines
    assert lines.total() == evening.written.messages + MALFORMED + SESSIONS
    started = Counter(row["device_id"] for row in tables["session_changes"] if row["change"] == "started")
    assert started["one"] == SESSIONS
    assert [row["device_id"] for row in tables["sessions"] if row["status"] == "live"].count("one") == 1

    waiting = pending_ends(oracle)
    assert waiting
    assert unaccounted_ends(tables, waiting) == 0
