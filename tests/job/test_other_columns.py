"""A query that ended because its table has other columns starts again, and one that cannot come on does not."""

from types import SimpleNamespace
from typing import Any

import pytest

from sessionization.job.queries import Queries

DELTA = "[DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected schema change in version 7"
SPARK = "assertion failed: Invalid batch: at#{0},body#4 != at#{0}1,body#5,extra#6"


class Ended:
    """A query that has ended before its first micro-batch."""

    lastProgress = None  # noqa: N815 - Spark's name
    recentProgress = ()  # noqa: N815

    def __init__(self, cause: str) -> None:
        self._cause = cause

    def exception(self) -> str:
        return self._cause


def queries_with(causes: list[str], lines: list[str]) -> Any:
    """Queries of which `archive` ends with one cause after the other."""
    queries = object.__new__(Queries)
    queries.by_name, queries._changed_columns = {"archive": Ended(causes[0])}, {}
    queries._context = SimpleNamespace(say=lines.append)
    rest = iter(causes[1:])
    queries.start_query = lambda name: queries.by_name.update({name: Ended(next(rest))})
    return queries


@pytest.mark.parametrize("cause", [DELTA, SPARK.format(1)])
def test_it_starts_again(cause: str) -> None:
    lines: list[str] = []
    assert queries_with([cause, ""], lines)._restart_with_new_columns("archive")
    assert lines == ["query archive has started again: a table that it reads has other columns"]


@pytest.mark.parametrize(("first", "second"), [(DELTA, DELTA), (SPARK.format(1), SPARK.format(2))])
def test_the_same_cause_at_once_again_ends_it(first: str, second: str) -> None:
    queries = queries_with([first, second], [])
    assert queries._restart_with_new_columns("archive")
    assert not queries._restart_with_new_columns("archive")


def test_another_cause_ends_it() -> None:
    assert not queries_with(["assertion failed: something else"], [])._restart_with_new_columns("archive")
