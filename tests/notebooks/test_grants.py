"""The workspace tests ask Unity Catalog for the rights of the tables' reader."""

from types import SimpleNamespace
from typing import Any

import pytest

from sessionization.notebook.trial_stream import write_privileges
from sessionization.spark.tables.location import TableLocation


class Catalog:
    """A stand-in for a Spark session of Unity Catalog, in which every principal has the same grants."""

    def __init__(self, user: str, grants: list[str]) -> None:
        self._user, self._grants = user, grants

    def sql(self, query: str) -> Any:
        if query == "SELECT current_user()":
            rows: list[Any] = [(self._user,)]
        else:
            assert query == "SHOW GRANTS `reader` ON SCHEMA `main`.`games`"
            rows = [SimpleNamespace(ActionType=grant) for grant in self._grants]
        return SimpleNamespace(collect=lambda: rows)


@pytest.mark.parametrize(("user", "found"), [("jobs", ["CREATE TABLE", "MODIFY"]), ("reader", [])])
def test_a_reader_has_no_other_rights_unless_the_reader_runs_the_jobs_too(user: str, found: list[str]) -> None:
    catalog: Any = Catalog(user, ["SELECT", "USE SCHEMA", "MODIFY", "CREATE TABLE"])
    assert write_privileges(catalog, TableLocation(None, "main", "games"), "reader") == found
