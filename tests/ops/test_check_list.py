"""Each check prints a line with its result, or with its cause and the advice; none hangs for ever."""

import errno
import threading
from typing import NoReturn

import pytest
from pyspark.errors import AnalysisException

from sessionization.ops.check_list import CheckList, Limit
from sessionization.spark.tables.location import TableLocation
from sessionization.time_limit import CheckTimeoutError, call_within

LIMIT = Limit(20, "look whether the engine lives")
SOON = Limit(0.05, "look whether the mount lives")


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def checks(lines: list[str]) -> CheckList:
    return CheckList(lines.append, TableLocation(catalog="games", schema="live"))


def fail() -> NoReturn:
    msg = "no module sqlalchemy"
    raise ImportError(msg)


def test_a_result_is_described(checks: CheckList, lines: list[str]) -> None:
    assert checks.run("engine", lambda: 4, LIMIT, lambda version: f"Spark {version}") == 4
    assert (lines, checks.failed) == (["ok       engine: Spark 4"], [])


def test_what_is_not_needed_is_a_warning_and_the_other_checks_run(checks: CheckList, lines: list[str]) -> None:
    checks.run("MLflow", fail, LIMIT, is_needed=False)
    checks.run("engine", fail, LIMIT)
    assert lines == [
        "warning  MLflow: ImportError: no module sqlalchemy; the job runs without",
        "FAILED   engine: ImportError: no module sqlalchemy",
    ]
    assert checks.failed == ["engine"]


def test_a_check_that_hangs_is_named_and_the_next_one_runs(
    checks: CheckList, lines: list[str], never: threading.Event
) -> None:
    checks.run("storage", never.wait, SOON)
    checks.run("lock", lambda: "locks", LIMIT)
    assert lines == [
        "FAILED   storage: no answer within 0.05 s: look whether the mount lives",
        "ok       lock: locks",
    ]


def test_a_call_returns_raises_or_ends_at_its_limit(never: threading.Event) -> None:
    assert call_within(20, lambda: 1) == 1
    with pytest.raises(ImportError):
        call_within(20, fail)
    with pytest.raises(CheckTimeoutError):
        call_within(0.05, never.wait)


def test_a_time_out_of_the_function_is_its_own_error() -> None:
    def time_out() -> NoReturn:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    with pytest.raises(TimeoutError, match="Connection timed out"):
        call_within(20, time_out)


def test_a_missing_privilege_is_named(checks: CheckList, lines: list[str]) -> None:
    def refuse() -> NoReturn:
        msg = "[INSUFFICIENT_PERMISSIONS] Insufficient privileges:\nUser does not have USE CATALOG on Catalog 'games'."
        raise AnalysisException(msg)

    def refuse_volume() -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", "/Volumes/games/live/checkpoints/x")

    checks.run("tables", refuse, LIMIT)
    checks.run("storage", refuse_volume, LIMIT)
    assert "User does not have USE CATALOG on Catalog 'games'" in lines[0]
    assert "/Volumes/games/live/checkpoints/x cannot be used (Permission denied)" in lines[1]
