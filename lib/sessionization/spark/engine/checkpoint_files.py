"""How Spark replaces a file of a checkpoint that is at a URI."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
KEEPS_FILES = f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"
"""Renames by `FileSystem.rename`, which replaces a file on Hadoop's local disk alone: elsewhere the older one stays."""
REPLACES_FILES = f"{_PACKAGE}.FileContextBasedCheckpointFileManager"
"""Renames by `FileContext.rename`, which replaces a file anywhere. It is Spark's default."""


@contextmanager
def replaced_checkpoint_files(spark: SparkSession) -> Iterator[None]:
    """During the body a repeated micro-batch replaces files of its first attempt also where the checkpoint is at a URI.

    A local session has another setting, for its disk (docs/adr/0031-renames-without-processes.md).
    """
    if spark.conf.get(_MANAGER, None) != KEEPS_FILES:
        yield
        return
    spark.conf.set(_MANAGER, REPLACES_FILES)
    try:
        yield
    finally:
        with suppress(Py4JError):  # the engine may have died
            spark.conf.set(_MANAGER, KEEPS_FILES)
