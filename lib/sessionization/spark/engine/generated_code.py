"""Whether Spark generates and compiles code for a query, or interprets it."""

from pyspark.sql import SparkSession

GENERATED_CODE_CONF = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Settings for many rows. A local session turns generated code off, because compiling it takes longer than a small
micro-batch."""


def generate_code(spark: SparkSession) -> None:
    """Let the queries of a local session generate code from now on; another session keeps its settings."""
    if spark.conf.get("spark.sql.codegen.factoryMode", None) == "NO_CODEGEN":
        for name, value in GENERATED_CODE_CONF.items():
            spark.conf.set(name, value)
