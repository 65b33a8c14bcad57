"""Answers by Spark, which knows every function, every view, and the metric view."""

import re

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.errors import ConfigurationError
from sessionization.say import Say
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.metric_views import SESSION_DAYS, SESSION_METRICS, create_metric_views
from sessionization.spark.tables.schemas import QUERIED_TABLES
from sessionization.spark.tables.view_sql import VIEWS
from sessionization.spark.tables.views import create_views
from sessionization_laptop.query.answer import Answer


def spark_answer(spark: SparkSession, location: TableLocation, sql: str, rows: int, say: Say) -> Answer:
    """At most `rows` rows of the result. Raises `ConfigurationError` where the statement is wrong."""
    try:
        words = set(re.findall(r"\w+", sql.lower()))
        if "show" in words:  # SHOW VIEWS lists all
            words.update(VIEWS, (table.name for table in QUERIED_TABLES))
        tables = [table for table in QUERIED_TABLES if table.name in words]
        create_views(spark, location, [name for name in VIEWS if name in words], tables)
        if words & {SESSION_DAYS, SESSION_METRICS}:
            create_metric_views(spark, location, say)
        return answer_of(spark.sql(sql).limit(rows))
    except PySparkException as error:
        names = ", ".join(sorted((*(table.name for table in QUERIED_TABLES), *VIEWS, SESSION_METRICS)))
        msg = f"--sql: {root_cause(str(error))} (tables and views: {names})"
        raise ConfigurationError(msg) from error


def answer_of(rows: DataFrame) -> Answer:
    return Answer(rows.columns, as_text(rows).collect())


def as_text(rows: DataFrame) -> DataFrame:
    """Every value as Spark writes it: times in UTC, maps and structs in full. The columns are numbered from 0."""
    numbered = rows.toDF(*map(str, range(len(rows.columns))))  # a name may be there twice
    return numbered.select(*(F.col(name).cast("string") for name in numbered.columns))
