"""The SQL files of tables and views: their placeholders, and that a session's views need no catalog."""

import re

import pytest

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.statements import Kind, fill_in, names_of, read_statement
from sessionization.spark.tables.views import session_view_sql

FILES = [(kind, name) for kind in ("tables", "views") for name in names_of(kind)]


@pytest.mark.parametrize(("kind", "name"), FILES)
def test_a_file_is_one_pasteable_statement_that_creates_what_it_is_named_after(kind: Kind, name: str) -> None:
    statement = read_statement(kind, name)
    begin = {"tables": "CREATE TABLE IF NOT EXISTS", "views": "CREATE OR REPLACE VIEW"}[kind]
    assert re.findall(r"^CREATE .*", statement, re.MULTILINE) == [f"{begin} ${{schema}}.{name} ("]
    assert statement.endswith(";\n")
    assert set(re.findall(r"\$\{(\w+)\}", statement)) <= {"schema", "checkpoint", "heartbeat_window_s"}
    known = names_of("tables") + names_of("views")
    assert set(re.findall(r"\$\{schema\}\.(\w+)", statement)) <= {*known}
    assert max(map(len, statement.splitlines())) <= 120


def test_a_name_is_filled_in_whole_and_a_value_as_text() -> None:
    statement = "CREATE TABLE ${schema}.sessions ('owner' = '${checkpoint}')"
    in_catalog = TableLocation(None, "games", "pr`od").sql_name
    assert (
        fill_in(statement, in_catalog, checkpoint="id") == "CREATE TABLE `games`.`pr``od`.`sessions` ('owner' = 'id')"
    )
    with pytest.raises(KeyError, match="checkpoint"):
        fill_in(statement, in_catalog)


def test_a_session_view_is_temporary_and_reads_the_tables_that_it_is_given() -> None:
    statement = session_view_sql("live_sessions", lambda name: f"of_{name}", heartbeat_ms=30_500)
    assert "CREATE OR REPLACE TEMPORARY VIEW live_sessions (" in statement
    assert "FROM of_sessions s" in statement
    assert "at - INTERVAL 722 SECONDS" in statement
