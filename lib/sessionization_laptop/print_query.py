"""Run SQL over a warehouse folder, and print the rows."""

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
from sessionization.spark.engine.session import job_session
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.metric_views import create_metric_views
from sessionization.spark.tables.schemas import REQUIRED_TABLES, TABLES
from sessionization.spark.tables.views import VIEWS, create_views

_WIDEST = 1_000_000


def print_query(warehouse: AnyPath, sql: str, rows: int) -> None:
    """Print at most `rows` rows of the result, with all times in UTC.

    Raises `ConfigurationError` when the folder holds no tables or the statement is wrong.
    """
    location = TableLocation(warehouse)
    if not all((warehouse / table.name / "_delta_log").is_dir() for table in REQUIRED_TABLES):
        msg = f"--warehouse {warehouse} does not hold the tables: give the folder that the sessionize job writes into"
        raise ConfigurationError(msg)
    console = Console()
    with job_session(depends_on=TIME_ZONE_CONF) as spark:
        try:
            create_views(spark, location)
            create_metric_views(spark, location, console.print)
            table = as_table(spark.sql(sql).limit(rows), console)
        except PySparkException as error:
            names = ", ".join(sorted((*(table.name for table in TABLES), *VIEWS)))
            msg = f"--sql: {root_cause(str(error))} (tables and views: {names})"
            raise ConfigurationError(msg) from error
    console.print(table)


def as_text(rows: DataFrame) -> DataFrame:
    """Every value as Spark writes it: times in UTC, maps and structs in full. The columns are numbered from 0."""
    numbered = rows.toDF(*map(str, range(len(rows.columns))))  # a name may be there twice
    return numbered.select(*(F.col(name).cast("string") for name in numbered.columns))


def as_table(rows: DataFrame, console: Console) -> Table:
    """The rows as a table; where that is too wide for the console, one column after the other, row by row."""
    texts = [[Text(value or "") for value in row] for row in as_text(rows).collect()]
    table = Table(*rows.columns)
    for row in texts:
        table.add_row(*row)
    if console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum <= console.width:
        return table
    records = Table("column", "value", show_header=False)
    for row in texts:
        for name, text in zip(rows.columns, row, strict=True):
            records.add_row(name, text)
        records.add_section()
    return records
