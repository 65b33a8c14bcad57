"""What a warm start says of the two queries that read before."""

import pytest

from sessionization.core.state import Rules
from sessionization.durations import DAY_MS
from sessionization.spark.apart import NOTHING, WorkedOff, line

NOON_MS = 1_763_726_400_000  # 2025-11-21 12:00 UTC
RULES = Rules(session_timeout_ms=30 * 60_000)

ELSE_UNKNOWN = (
    "; after a crash, or a stop that said stream_progress is behind, its end is not known: later than 1h "
    "after this start backfill --verify tells"
)


def worked_off(messages: int, quarantined: int = 0, reached_ms: int | None = NOON_MS, **other: bool | int) -> WorkedOff:
    said = {"micro_batches": 9, "newest": 8, "counts_changes": True} | other
    return WorkedOff(messages=messages, quarantined=quarantined, reached_ms=reached_ms, **said)  # type: ignore[arg-type]


def told(sessionize: WorkedOff, archive: WorkedOff, rules: Rules = RULES) -> str:
    said = line({"sessionize": sessionize, "archive": archive}, rules)
    assert "\n" not in said
    return said.removeprefix("--from-sessions: ")


def test_a_backlog_of_which_only_the_archive_knows_is_told_with_what_mends_it() -> None:
    said = told(worked_off(1_000), worked_off(13_500, quarantined=500, reached_ms=NOON_MS + DAY_MS))
    assert said.startswith("archive had taken 12,000 events that sessionize had not")
    assert "later than 1h after this start stop the job, run backfill --from 2025-11-20 --merge, and start" in said


def test_the_day_is_far_enough_back_for_sessions_that_were_live() -> None:
    long = Rules(session_timeout_ms=3 * DAY_MS)
    assert "backfill --from 2025-11-18 --merge" in told(worked_off(1), worked_off(2), long)


def test_what_is_read_again_is_told() -> None:
    said = told(worked_off(17), worked_off(12, quarantined=2))
    assert said.startswith("sessionize had taken 7 events that archive had not")
    assert "where their session was closed within 10m" in said
    assert said.endswith(ELSE_UNKNOWN)


@pytest.mark.parametrize(
    ("sessionize", "archive"),
    [
        (worked_off(10), worked_off(13, quarantined=3)),
        (worked_off(13, counts_changes=False), worked_off(13, quarantined=3)),  # messages, valid or not
        (worked_off(0, reached_ms=None), NOTHING),  # no message ever came
    ],
)
def test_the_same_events_are_told_as_such(sessionize: WorkedOff, archive: WorkedOff) -> None:
    said = told(sessionize, archive)
    assert said.startswith("archive and sessionize had taken the same events")
    assert said.endswith(ELSE_UNKNOWN)


@pytest.mark.parametrize(
    ("sessionize", "archive"),
    [
        (worked_off(10, micro_batches=8), worked_off(99)),
        (worked_off(10), worked_off(99, newest=20)),
        (NOTHING, NOTHING),
    ],
)
def test_sums_that_lack_rows_tell_nothing(sessionize: WorkedOff, archive: WorkedOff) -> None:
    assert told(sessionize, archive).startswith("rows of stream_progress are missing")
