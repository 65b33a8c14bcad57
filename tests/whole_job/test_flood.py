"""A flood in single micro-batches: malformed messages, and sessions of one device.

SESSIONIZATION_E2E_FLOOD=1 gives the test its full size; by default it is a twentieth of that.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from sessionization.core.session_state import Rules
from tests.support.accounts import unaccounted
from tests.support.evening import ENDS_MS
from tests.support.job import Job
from tests.support.oracle import build_oracle
from tests.support.tables import differences, read_tables

pytestmark = [pytest.mark.job, pytest.mark.long]

SHARE = float(os.environ.get("SESSIONIZATION_E2E_FLOOD", "0.05"))
MALFORMED = round(1_000_000 * SHARE)
SESSIONS = round(100_000 * SHARE)


def start(session_id: int, device_id: str) -> bytes:
    at = f"2026-01-01T00:{session_id // 6_000 % 60:02}:{session_id // 100 % 60:02}.{session_id % 100:03}Z"
    fields = {"appSessionId": session_id, "eventId": "ApplicationSessionStart", "hostPcId": device_id, "timestamp": at}
    return json.dumps(fields).encode()


def deliver(folder: Path, name: str, lines: list[bytes]) -> None:
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}.tmp"
    hidden.write_bytes(b"\n".join(lines))
    os.utime(hidden, ns=(0, (ENDS_MS + 3_600_000) * 1_000_000))
    hidden.rename(folder / f"{name}.json")


def test_the_job_survives_a_flood_and_accounts_for_every_message(tmp_path: Path) -> None:
    job = Job(tmp_path)
    pc_folder = job.input / "pc_sessions"
    deliver(pc_folder, "malformed", [b'{"appSessionId":%d,' % number for number in range(MALFORMED)])
    deliver(pc_folder, "one-device", [start(number, "one") for number in range(SESSIONS)])
    deliver(pc_folder, "others", [start(number, f"device-{number}") for number in range(100)])
    job.run_until_done()
    tables, oracle = read_tables(job.warehouse), build_oracle(job.checkpoints, Rules())
    assert differences(oracle, tables, job.checkpoints) == []
    assert unaccounted(tables, []) == []
    assert Counter(row["reason"] for row in tables["quarantine"]) == {"malformed_json": MALFORMED}
    started = Counter(row["device_id"] for row in tables["session_changes"] if row["change"] == "started")
    assert started["one"] == SESSIONS
    live = [row["device_id"] for row in tables["sessions"] if row["status"] == "live"]
    assert live.count("one") == 1
    assert len(live) == 101
