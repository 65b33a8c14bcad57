"""The private names of Delta that the job uses, as of Delta 4.4. None of them is promised for the next release.

Each function says why there is no public way, and what would replace it.
"""

from typing import Any

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession

from sessionization.private_spark import jvm_of


def has_delta(spark: SparkSession) -> bool:
    """Whether the JVM of the session has Delta's jars. It must have a JVM.

    Spark only warns of an extension whose class is missing. The class is public, but only the JVM can look for it.
    """
    return isinstance(jvm_of(spark).io.delta.tables.DeltaTable, JavaClass)


def clean_up_log(spark: SparkSession, folder: str, retention_ms: int) -> None:
    """Delete the entries of a table's log that are older than `retention_ms` and that no later checkpoint needs.

    Delta does it by itself (`MetadataCleanup.cleanUpExpiredLogs`), but in whole days, after midnight (UTC). A table
    property for hours would replace it. Raises `TypeError` where this Delta has no such class.
    """
    jvm: Any = jvm_of(spark)
    delta = jvm.org.apache.spark.sql.delta
    log = delta.DeltaLog.forTable(spark._jsparkSession, folder)
    retention = jvm.scala.jdk.javaapi.OptionConverters.toScala(jvm.java.util.OptionalLong.of(retention_ms))
    no_catalog_table = jvm.scala.Option.empty()
    log.cleanUpExpiredLogs(
        log.unsafeVolatileSnapshot(), no_catalog_table, retention, delta.TruncationGranularity.MINUTE()
    )
