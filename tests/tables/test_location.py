"""How a table is named for SQL and for Delta's own methods."""

from pathlib import Path

import pytest

from sessionization.spark.tables.location import TableLocation


@pytest.mark.parametrize(
    ("location", "for_sql", "for_delta"),
    [
        (TableLocation(None, "spark_catalog", "games"), "`spark_catalog`.`games`.`sessions`", "`games`.`sessions`"),
        (TableLocation(None, "main", "games"), "`main`.`games`.`sessions`", "`main`.`games`.`sessions`"),
        (TableLocation(Path("/t")), "delta.`/t/sessions`", "delta.`/t/sessions`"),
    ],
    ids=["sparks-own-catalog", "another-catalog", "a-folder"],
)
def test_deltas_methods_take_no_catalog_before_sparks_own_schemas(
    location: TableLocation, for_sql: str, for_delta: str
) -> None:
    assert (location.sql_name("sessions"), location.delta_name("sessions")) == (for_sql, for_delta)
