"""The harness finds a sink that doubles or drops rows with few kills."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.boundaries import Boundary
from tests.support.harness import play
from tests.support.tables import differences

pytestmark = [pytest.mark.job, pytest.mark.long]

BROKEN_JOB = Path(__file__).with_name("broken_job.py")


@pytest.mark.parametrize(
    ("mutation", "boundaries", "verdict"),
    [
        ("not-idempotent", (Boundary.CHANGES_COMMITTED,), "too much"),
        ("dropping", (Boundary.AT_RANDOM,), "missing"),
    ],
)
def test_the_harness_finds_a_broken_sink(
    tmp_path: Path, mutation: str, boundaries: Sequence[Boundary], verdict: str
) -> None:
    run = play(1, len(boundaries), tmp_path, boundaries=boundaries, entry=(BROKEN_JOB, mutation))
    found = differences(run.oracle, run.actual, run.job.checkpoints)
    assert any(line.startswith("session_changes: ") and f"x {verdict} (" in line for line in found), found
