"""All lists of the columns of `session_changes` name the same columns."""

import re
from pathlib import Path

from sessionization.core.events import Change
from sessionization.spark.operator.codec import OUTPUT_SCHEMA
from sessionization.spark.tables.schemas import SESSION_CHANGES
from sessionization.spark.tables.views import DEVICE_TIMELINE
from tests.whole_job.oracle import COLUMNS

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
NAMES = SESSION_CHANGES.column_names
IN_MS = {re.sub("_at$", "_ms", name) for name in NAMES}


def test_the_oracle_compares_every_column() -> None:
    assert set(COLUMNS["session_changes"]) == IN_MS


def test_the_operator_and_the_core_fill_every_column() -> None:
    assert IN_MS - {"change_date"} <= set(OUTPUT_SCHEMA.names)
    assert {"change" if name == "kind" else name for name in Change._fields} == IN_MS - {"device_id", "change_date"}


def test_the_page_describes_every_column() -> None:
    section = PAGE.read_text(encoding="utf-8").split("### `session_changes`")[1].split("\n### ")[0]
    assert [name for name in NAMES if f"`{name}`" not in section] == []


def test_the_timeline_shows_every_column_that_a_reader_needs() -> None:
    shown = DEVICE_TIMELINE.sql.split("FROM (")[0]
    missing = [name for name in NAMES if not re.search(rf"\b{name}\b", shown)]
    assert missing == ["ingested_at", "change_date"]
