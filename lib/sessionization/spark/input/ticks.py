"""A stream that makes Spark plan micro-batches when no message comes."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def tick_stream(spark: SparkSession) -> DataFrame:
    """Return an endless stream without rows that makes Spark plan a micro-batch at every trigger.

    Without it Spark plans no micro-batch after a restart without new input, and no due timer fires until an event
    comes. The source counts micro-batches. One that counts seconds (`rate`) would end the query after the clock was put
    back, because it would have read more seconds than have passed.

    Returns:
        The column `grouping_key`.
    """
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
    return ticks.where("false").select(F.lit(None).cast("string").alias("grouping_key"))
