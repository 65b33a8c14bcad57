"""Whatever lies in the input folder, it stops no stream: the good messages arrive, and the rest is named."""

import gzip
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from sessionization.job.stop_file import STOP_FILE
from tests.support.delta import read_table
from tests.support.job import Job
from tests.support.sent import message
from tests.support.tables import read_tables

pytestmark = pytest.mark.job

MB = 1024 * 1024
BIG = 10 * MB  # more than a task and a batch of lines take
IN_1980_S, IN_2200_S = 315_532_800, 7_258_118_400


def start(session_id: int) -> bytes:
    return message(session_id, "Start", f"d{session_id}")


def started(job: Job) -> list[int]:
    """The sessions that `session_changes` shows as started."""
    rows = read_table(job.warehouse / "session_changes").of("session_id", "change")
    return sorted(session_id for session_id, change in rows if change == "started")


def fill(folder: Path) -> dict[str, bytes]:
    """Write files of every kind. Returns the ones that are read."""
    files = {
        "2026-11-27T12:00:00.json": start(1) + b"\n",
        "a%20b#?[c] .jsonl": start(2) + b"\r\n",
        "line\nbreak.ndjson": start(3),
        os.fsdecode(b"sp\xe4t.json"): start(4),
        "é.json.gz": gzip.compress(start(5) + b"\n" + b"a" * 3 * MB),
        "cut.json.gz": gzip.compress(start(6) + b"\n" + os.urandom(MB).replace(b"\n", b""))[: -MB // 2],
        "2200.json": start(7),
        "1980.json": start(8),
        "big.json": start(9) + b"\n" + b"a" * BIG,
        "zeros.json": b"\0" * 3 * MB,
        "joined.json": start(10) * 1_000 + b"\n" + start(10),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    os.utime(folder / "2200.json", (IN_2200_S,) * 2)
    os.utime(folder / "1980.json", (IN_1980_S,) * 2)
    for name in ("report.csv", "UPPER.JSON", ".hidden.json"):
        (folder / name).write_bytes(start(99))
    (folder / "archive").mkdir()
    (folder / "archive" / "old.json").write_bytes(start(99))
    return files


def test_whatever_lies_in_a_folder_the_good_messages_arrive(tmp_path: Path) -> None:
    job = Job(tmp_path, "--trigger=1s", "--heartbeat=10m")
    folder = job.input / "pc_sessions"
    folder.mkdir(parents=True)
    fill(folder)
    job.start()
    with job:
        job.wait_until(lambda: len(started(job)) >= 8, "the good sessions", poll_s=0.5)
        (folder / "after.json").write_bytes(start(11))
        job.wait_until(lambda: len(started(job)) >= 9, "a file that came later", poll_s=0.5)
        (job.checkpoints / STOP_FILE).touch()
        assert job.wait_for_end() == 0
    assert not (job.checkpoints / STOP_FILE).exists()
    tables = read_tables(job.warehouse)
    assert started(job) == [1, 2, 3, 4, 5, 6, 9, 10, 11]
    reasons = Counter((row["reason"], row["value_bytes"]) for row in tables["quarantine"])
    joined = len(start(10)) * 1_000
    assert reasons == Counter([
        ("event_time_too_old", len(start(7))), ("event_time_in_future", len(start(8))),
        ("oversized", 3 * MB), ("oversized", BIG), ("oversized", 3 * MB), ("oversized", joined),
        ("malformed_json", 0),
    ])  # fmt: skip
    assert max(len(row["value"]) for row in tables["raw_events"]) == 64 * 1024 + 1
    today = time.strftime("%Y-%m-%d", time.gmtime())
    assert {row["ingest_date"] for row in tables["raw_events"]} <= {today, time.strftime("%Y-%m-%d", time.gmtime())}
    output = "\n".join(job.output_lines())
    assert "2 entries of pc_sessions do not end with .json, " in output
    assert "1 entries of pc_sessions are folders" in output
