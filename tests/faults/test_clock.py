"""A clock that was ahead is corrected: time goes back from one micro-batch to the next."""

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.whole_job.checkpoints import batches_of
from tests.whole_job.delta import read_table
from tests.whole_job.job import Job
from tests.whole_job.state import entries_and_timers

pytestmark = pytest.mark.job

START = "ApplicationSessionStart"
HEARTBEAT_MS = 5_000
AHEAD_MS = 20 * 60_000
_RESTART_MS = 30_000
"""How long a busy machine may take to restart a query: two heartbeats of the default length are a minute."""


def send(job: Job, name: str, event: str, *sessions: int) -> None:
    """Deliver one event for each of these sessions; each session has its own device."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    lines = [
        json.dumps({"appSessionId": number, "eventId": event, "hostPcId": f"d{number}", "timestamp": at})
        for number in sessions
    ]
    hidden = job.input / "pc_sessions" / f".{name}"
    hidden.parent.mkdir(exist_ok=True)
    hidden.write_text("\n".join(lines), encoding="utf-8")
    hidden.rename(hidden.with_name(name))


def start_batch_ahead(query: Path) -> int:
    """Write a started micro-batch whose clock and ticks are ahead; return that clock."""
    newest = batches_of(query)[-1]
    ahead_id = newest.batch_id + newest.is_committed
    version, conf, *offsets = (query / "offsets" / str(newest.batch_id)).read_text(encoding="utf-8").split("\n")
    ahead = json.loads(conf)
    ahead["batchTimestampMs"] += AHEAD_MS
    offsets = [str(int(text) + AHEAD_MS // 1_000) if text.isdigit() else text for text in offsets]
    file = query / "offsets" / str(ahead_id)
    file.write_text("\n".join((version, json.dumps(ahead), *offsets)), encoding="utf-8")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return int(ahead["batchTimestampMs"])


def beats_between(job: Job, from_ms: int, until_ms: int) -> dict[int, list[dict[str, object]]]:
    """The heartbeats of micro-batches started in that time, by session."""
    found: dict[int, list[dict[str, object]]] = {}
    for row in read_table(job.warehouse / "session_changes"):
        if row["change"] == "heartbeat" and from_ms <= row["processed_ms"] < until_ms:
            found.setdefault(row["session_id"], []).append(row)
    return found


@pytest.mark.long
@pytest.mark.parametrize("groups", [None, 3])
def test_all_sessions_beat_again_after_the_clock_went_back(
    tmp_path: Path, spark: SparkSession, groups: int | None
) -> None:
    grouping = () if groups is None else (f"--device-groups={groups}",)
    job = Job(tmp_path, "--trigger=500ms", f"--heartbeat={HEARTBEAT_MS}ms", *grouping)
    query = job.checkpoints / "sessionize"
    old, new, ended = {1, 2, 3, 4}, 5, 1

    def has_beats(from_ms: int, until_ms: int, sessions: set[int]) -> Callable[[], bool]:
        return lambda: sessions <= beats_between(job, from_ms, until_ms).keys()

    try:
        send(job, "1.json", START, *old)
        job.start()
        job.wait_until(has_beats(0, 2**62, old), "all beat", poll_s=0.2)
        job.kill()
        ahead_ms = start_batch_ahead(query)
        job.start()
        job.wait_until(lambda: batches_of(query)[-1].clock_ms < ahead_ms, "the clock is right again", poll_s=0.1)
        right_ms = next(batch.clock_ms for batch in batches_of(query)[::-1] if batch.clock_ms < ahead_ms)
        send(job, "2.json", START, new)
        job.wait_until(has_beats(right_ms, ahead_ms, {*old, new}), "all beat again", poll_s=0.2, within_s=90)
        send(job, "3.json", "ApplicationSessionEndBi", ended)
        job.wait_until_done()
        assert job.terminate() == 0
    finally:
        job.kill_if_running()

    changes = read_table(job.warehouse / "session_changes").of("session_id", "change", "end_reason")
    state_changes = Counter(row for row in changes if row[1] != "heartbeat")
    started = {(session_id, "started", None): 1 for session_id in (*old, new)}
    assert state_changes == Counter(started | {(ended, "ended", "reported"): 1})
    later_beats = beats_between(job, right_ms, ahead_ms)
    for session_id in old:
        assert min(row["processed_ms"] for row in later_beats[session_id]) <= right_ms + 2 * HEARTBEAT_MS + _RESTART_MS
    all_due = [(session_id, row["due_ms"]) for session_id, rows in later_beats.items() for row in rows]
    assert len(all_due) == len(set(all_due))
    assert sum("the clock went back by" in line for line in job.output_lines()) == 1
    entries, timers = entries_and_timers(spark, job.checkpoints)
    assert {session_id for _, session_id, status in entries if status == "live"} == {*old, new} - {ended}
    assert len(timers) == len({key for key, _ in timers})
    assert max(timer_ms for _, timer_ms in timers) < ahead_ms
