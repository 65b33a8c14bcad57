"""The Spark settings on which results or heartbeats depend, and how they get into a session that runs."""

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError

EXTENSIONS = "spark.sql.extensions"
CATALOG = "spark.sql.catalog.spark_catalog"
NO_CATALOG = {None, "builtin"}
"""The values of `CATALOG` where nobody has chosen one."""
TIME_ZONE_CONF = {"spark.sql.session.timeZone": "UTC"}
"""What a job that reads no messages depends on; serverless compute takes hardly any other setting."""
MESSAGES_CONF = TIME_ZONE_CONF | {
    # One value of a repeated field counts, no matter which; by default the message would be malformed.
    "spark.sql.variant.allowDuplicateKeys": "true",
}
"""What a job that parses messages depends on."""
DELTA_CONF = {
    CATALOG: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    EXTENSIONS: "io.delta.sql.DeltaSparkSessionExtension",
}
_STREAM_CONF = MESSAGES_CONF | {
    # Timers need micro-batches when no event comes.
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.stateStore.encodingFormat": "avro",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The job reads the offset log, and knows this format.
    "spark.sql.streaming.offsetLog.formatVersion": "1",
    # A query that cannot be stopped must not prevent the end of the job.
    "spark.sql.streaming.stopTimeout": "5s",
    # Several queries share the cores: a long MERGE must not delay a heartbeat.
    "spark.scheduler.mode": "FAIR",
}
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"

DATABRICKS_CONF = _STREAM_CONF | {_STATE_STORE: "com.databricks.sql.streaming.state.RocksDBStateStoreProvider"}
"""The settings on Databricks. `bundles/sessionize.job.yml` has them, because some cannot be set while Spark runs."""
OPEN_SOURCE_CONF = (
    _STREAM_CONF
    | {_STATE_STORE: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
    | DELTA_CONF
)
"""The settings anywhere else."""


def words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def with_conf(spark: SparkSession, conf: Mapping[str, str], remedy: str) -> SparkSession:
    """Set these settings in a session that runs. Raises `ConfigurationError` where some cannot be set there."""
    mistakes = []
    for name, value in conf.items():
        found = spark.conf.get(name, None)
        is_set = found is not None and value in words(found)
        if not is_set and not _try_to_set(spark, name, found, value):
            mistakes.append(f"{name}={value} " + ("is not set" if found is None else f"is set to {found}"))
    if mistakes:
        msg = f"the Spark session lacks settings that cannot be set while it runs: {'; '.join(mistakes)}: {remedy}"
        raise ConfigurationError(msg)
    return spark


def _try_to_set(spark: SparkSession, name: str, found: str | None, value: str) -> bool:
    """Set it, unless Spark cannot change it while it runs, or the caller has chosen another catalog."""
    if name == CATALOG and found not in NO_CATALOG:
        return False
    try:
        spark.conf.set(name, value)
    except PySparkException:
        return False
    return True
