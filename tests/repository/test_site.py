"""The site's pages that are taken from the code leave nothing out. `make docs` checks their links."""

import re

from sessionization.spark.tables.statements import names_of
from tests.support.sources import ROOT
from tools.docs.columns_page import columns_page
from tools.docs.options_page import options_page


def sections(page: str, level: str) -> dict[str, int]:
    """By heading, how many rows the tables below it have."""
    _, *parts = re.split(rf"^{level} (.+)$", page, flags=re.MULTILINE)
    return {
        title: len(re.findall(r"^\| `", text, re.MULTILINE))
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


def test_every_table_and_view_has_its_columns_but_the_metric_view_whose_columns_are_yaml() -> None:
    rows = sections(columns_page(), "###")
    assert set(rows) == {*names_of("tables"), *names_of("views"), *names_of("metrics")}
    assert [name for name, count in rows.items() if count == 0] == ["session_metrics"]


def test_a_view_has_its_last_column_too_and_no_expression_of_its_query() -> None:
    page = columns_page()
    assert "| `idle_ms` | from last_active_at to last_heartbeat_at; negative where the clock" in page
    assert sections(page, "###")["account_sessions"] == 8


def test_every_job_has_its_options() -> None:
    rows = sections(options_page(ROOT / "jobs"), "##")
    assert set(rows) == {script.name for script in (ROOT / "jobs").glob("*.py")} | {"preflight.py --sample"}
    assert min(rows.values()) > 0
