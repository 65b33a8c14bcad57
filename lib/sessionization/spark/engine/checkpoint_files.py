"""How Spark replaces a file of a checkpoint that is at a URI."""

from pyspark.sql import SparkSession

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
KEEPS_FILES = f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"
"""Renames by `FileSystem.rename`, which replaces a file on Hadoop's local disk alone: elsewhere the older one stays."""
REPLACES_FILES = f"{_PACKAGE}.FileContextBasedCheckpointFileManager"
"""Renames by `FileContext.rename`, which replaces a file anywhere. It is Spark's default."""


def replace_checkpoint_files(spark: SparkSession) -> None:
    """Let a repeated micro-batch replace files of its first attempt also where the checkpoint is at a URI.

    A local session has another setting, for its disk (docs/adr/0031-renames-without-processes.md).
    """
    if spark.conf.get(_MANAGER, None) == KEEPS_FILES:
        spark.conf.set(_MANAGER, REPLACES_FILES)
