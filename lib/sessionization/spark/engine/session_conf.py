"""Settings of a Spark session that hold for a while, and the settings of a compaction."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

COMPACTION_CONF = {
    "spark.databricks.delta.optimize.minFileSize": str(32 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(64 * 1024 * 1024),
}
"""A compaction leaves files of 32 MB and more as they are, so it takes seconds.

With Delta's default, 1 GB, it would rewrite up to a gigabyte of rows that it has rewritten before.
"""


@contextmanager
def temporary_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Set these settings until the body has ended."""
    before = {name: spark.conf.get(name, None) for name in conf}
    try:
        for name, value in conf.items():
            spark.conf.set(name, value)
        yield
    finally:
        restore_conf(spark, before)


def restore_conf(spark: SparkSession, before: Mapping[str, str | None]) -> None:
    """Set these settings; None for one that was not set."""
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
