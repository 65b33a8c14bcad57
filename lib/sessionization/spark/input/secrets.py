"""Secrets of Databricks, which options name by `secret:SCOPE/KEY`."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from sessionization.databricks import on_databricks
from sessionization.errors import ConfigurationError


def secret_reader(spark: SparkSession) -> Callable[[str, str], str] | None:
    """Returns a secret by scope and key, or raises `ConfigurationError`; None where there are no secret scopes."""
    return partial(_databricks_secret, spark) if on_databricks() else None


def _databricks_secret(spark: SparkSession, scope: str, key: str) -> str:
    from pyspark.dbutils import DBUtils

    try:
        return str(DBUtils(spark).secrets.get(scope, key))
    except Exception as error:
        msg = f"secret {scope}/{key} cannot be read: create it, or let this job's user read the scope"
        raise ConfigurationError(msg) from error
