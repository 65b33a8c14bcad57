"""What maintenance does to which table, and what it leaves alone."""

import pytest

from sessionization import cli
from sessionization.errors import ConfigurationError
from sessionization.ops.maintain import steps
from sessionization.ops.settings import MaintainSettings
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import TABLES

DAY_MS = 86_400_000
HOME = TableHome(catalog="main", schema="games")


def test_days_that_are_over_are_compacted_and_today_is_not() -> None:
    compact = [step.sql for step in steps(HOME, 3, 7 * DAY_MS) if step.sql.startswith("OPTIMIZE")]
    assert compact == [
        f"OPTIMIZE `main`.`games`.`{table}` WHERE {day} >= date_sub(current_date(), 3) AND {day} < current_date()"
        for table, day in (
            ("session_changes", "change_date"),
            ("raw_events", "ingest_date"),
            ("quarantine", "ingest_date"),
        )
    ]


def test_a_merge_of_the_stream_meets_no_compaction() -> None:
    assert "sessions" not in {step.table for step in steps(HOME, 3, 7 * DAY_MS) if step.sql.startswith("OPTIMIZE")}


def test_every_table_is_cleaned_and_a_part_of_an_hour_counts_whole() -> None:
    delete = [step for step in steps(HOME, 3, 7 * DAY_MS + 1) if step.sql.startswith("VACUUM")]
    assert [step.table for step in delete] == [table.name for table in TABLES]
    assert {step.sql.rpartition(" RETAIN ")[2] for step in delete} == {"169 HOURS"}


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("--catalog=main --schema=games --retention=6d", "--retention '6d' is too small: write at least 7d"),
        ("--catalog=main", "go together"),
        ("", "one home"),
        ("--warehouse=w", "--warehouse and --checkpoints go together"),
        ("--catalog=main --schema=games --days=0", "--days '0' is too small"),
    ],
)
def test_what_would_harm_is_refused(argv: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        cli.read(MaintainSettings, argv.split())
