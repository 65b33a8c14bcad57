"""Creates `session_days` and `session_metrics` of `sessionization/sql/metrics`, over the tables of the job players."""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from sessionization.say import Say
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import PLAYER_FIRST_DAYS, PLAYER_PROGRESS
from sessionization.spark.tables.statements import fill_in, read_statement, with_names
from sessionization.spark.tables.view_sql import title_sql

SESSION_DAYS, SESSION_METRICS = "session_days", "session_metrics"


def create_metric_views(spark: SparkSession, location: TableLocation, say: Say) -> None:
    """Create or replace the views, once the job players has made its tables; say so where the platform refuses them.

    Where the tables are folders, the views stand in Spark's own catalog, because a metric view needs one: on a laptop
    they live as long as the Spark session.
    """
    if location.missing(spark, (PLAYER_PROGRESS, PLAYER_FIRST_DAYS)):
        return
    try:
        spark.sql(_session_days_sql(spark, location))
        _create_session_metrics(spark, location)
    except AnalysisException as error:
        say(f"this platform does not take the metric view {SESSION_METRICS}: {root_cause(str(error))}")


def _create_session_metrics(spark: SparkSession, location: TableLocation) -> None:
    statement = with_names(read_statement("metrics", SESSION_METRICS), lambda name: _view_name(location, name))
    try:
        spark.sql(statement)
    except AnalysisException as error:
        if error.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
            raise
        # Spark 4.2 replaces no metric view, whatever CREATE OR REPLACE says; Unity Catalog does, and keeps its grants.
        spark.sql(f"DROP VIEW {_view_name(location, SESSION_METRICS)}")
        spark.sql(statement)


def _session_days_sql(spark: SparkSession, location: TableLocation) -> str:
    def of_last_run(column: str) -> str:
        return f"(SELECT max({column}) FROM {location.sql_name(PLAYER_PROGRESS.name)} WHERE reason = 'run')"

    values = {
        "title": title_sql(location.labels(spark)),
        "condition": "true",
        "as_of": of_last_run("as_of"),
        "zone": of_last_run("time_zone"),
        "days": "sequence(DATE '2000-01-01', date_add(current_date(), 1))",
    }
    names = ("played", "days", "played_in_days")

    def sql_name(name: str) -> str:
        """The name of a query of the statement, of the view, or of a table."""
        if name in names:
            return name
        return _view_name(location, name) if name == SESSION_DAYS else location.sql_name(name)

    queries = {name: fill_in(read_statement("players", name), sql_name, **values) for name in names}
    return fill_in(read_statement("metrics", SESSION_DAYS), sql_name, **queries)


def _view_name(location: TableLocation, name: str) -> str:
    return location.sql_name(name) if location.warehouse is None else name
