"""Settings of a Spark session that hold for a while, and those of a compaction."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

COMPACTION_CONF = {
    "spark.databricks.delta.optimize.minFileSize": str(32 * 1024 * 1024),
    "spark.databricks.delta.optimize.maxFileSize": str(64 * 1024 * 1024),
}
"""A compaction leaves files of 32 MB and more as they are, unless many of their rows were deleted.

So it takes seconds. With Delta's default, 1 GB, it would rewrite up to a gigabyte of rows that it has rewritten before.
"""


@contextmanager
def added_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[bool]:
    """Set these settings until the body has ended: all of them, or none if the session has one or refuses one.

    Yields whether they are set.
    """
    is_added = all(spark.conf.get(name, None) is None for name in conf)
    with ExitStack() as added:
        try:
            for name, value in conf.items() if is_added else ():
                spark.conf.set(name, value)
                added.callback(spark.conf.unset, name)
        except PySparkException:
            is_added = False
            added.close()
        yield is_added
