"""Settings of a Spark session that hold for a while, and those of a compaction."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

COMPACTION_CONF = {
    "spark.databricks.delta.optimize.minFileSize": str(32 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(64 * 1024 * 1024),
}
"""A compaction leaves files of 32 MB and more as they are, unless many of their rows were deleted.

So it takes seconds. With Delta's default, 1 GB, it would rewrite up to a gigabyte of rows that it has rewritten before.
"""


@contextmanager
def added_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Set these settings until the body has ended; none if the session has one, because they belong together."""
    added = conf if all(spark.conf.get(name, None) is None for name in conf) else {}
    try:
        for name, value in added.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name in added:
            spark.conf.unset(name)
