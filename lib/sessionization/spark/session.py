"""The Spark session: the cluster's on Databricks, one of our own elsewhere."""

import os
from pathlib import Path

from pyspark.sql import SparkSession

STREAM_CONF = {
    "spark.sql.session.timeZone": "UTC",
    # A repeated field of a message counts once, whichever; without this it would make the message malformed.
    "spark.sql.variant.allowDuplicateKeys": "true",
    # Timers need micro-batches when no event comes.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    # A nullable field added to the state by a later version reads as null from an older checkpoint.
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A query that does not let itself be stopped must not keep the job from ending.
    "spark.sql.streaming.stopTimeout": "5s",
    # Several queries share the cores: a long MERGE must not hold back a heartbeat.
    "spark.scheduler.mode": "FAIR",
}


def on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def spark_session(log_file: Path) -> SparkSession:
    """The session that the queries run in, with the settings that their results depend on.

    Args:
        log_file: where a local engine logs; not used on Databricks, where the cluster logs.
    """
    if on_databricks():
        spark = SparkSession.builder.getOrCreate()
        for name, value in STREAM_CONF.items():
            if name != "spark.scheduler.mode":
                spark.conf.set(name, value)
        return spark
    from sessionization.local.session import local_session

    return local_session(log_file, STREAM_CONF)
