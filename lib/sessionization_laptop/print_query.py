"""Run SQL over a warehouse folder, and print the rows."""

import os
import time
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import Row
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES
from sessionization.spark.tables.views import VIEWS, create_views

_WIDEST = 1_000_000


def print_query(warehouse: AnyPath, sql: str, rows: int) -> None:
    """Print at most `rows` rows of the result, with all times in UTC.

    Raises `ConfigurationError` when the folder holds no tables or the statement is wrong.
    """
    location = TableLocation(warehouse)
    if not all((warehouse / table.name / "_delta_log").is_dir() for table in TABLES):
        msg = f"--warehouse {warehouse} does not hold the tables: give the folder that the sessionize job writes into"
        raise ConfigurationError(msg)
    # PySpark converts instants into the time zone of the process.
    os.environ["TZ"] = "UTC"
    time.tzset()
    with job_session(depends_on=TIME_ZONE_CONF) as spark:
        try:
            create_views(spark, location)
            result = spark.sql(sql).limit(rows).collect()
        except PySparkException as error:
            names = ", ".join(sorted((*(table.name for table in TABLES), *VIEWS)))
            msg = f"--sql: {root_cause(str(error))} (tables and views: {names})"
            raise ConfigurationError(msg) from error
    console = Console()
    console.print(as_table(result, console))


def as_table(rows: Sequence[Row], console: Console) -> Table:
    """The rows as a table; where that is too wide for the console, one column after the other, row by row."""
    table = Table()
    for name in rows[0].__fields__ if rows else ("(no rows)",):
        table.add_column(name)
    for row in rows:
        table.add_row(*map(_text, row))
    if console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum <= console.width:
        return table
    records = Table("column", "value", show_header=False)
    for row in rows:
        for name, value in zip(row.__fields__, row, strict=True):
            records.add_row(name, _text(value))
        records.add_section()
    return records


def _text(value: object) -> Text:
    return Text("" if value is None else str(value))
