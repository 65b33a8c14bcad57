"""Tables on S3: whether Delta lets a commit of one driver replace that of another."""

from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from sessionization.databricks import on_databricks
from sessionization.hadoop_path import S3_SCHEMES
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import JOB_LEASE

_FOR_SEVERAL_DRIVERS = ".S3DynamoDBLogStore"
_DEFAULT = "io.delta.storage.S3SingleDriverLogStore"


def single_driver_warning(spark: SparkSession, location: TableLocation) -> str | None:
    """A warning where the tables are on S3 and Delta's log store allows one driver; the lease's table must exist.

    No log store of Delta but that with a table of DynamoDB makes S3 refuse a second commit of the same number.

    docs/adr/0038-s3-has-one-driver.md has the reasons.
    """
    if on_databricks():  # which has a commit service
        return None
    scheme = urlsplit(_place_of(spark, location)).scheme
    if scheme not in S3_SCHEMES:
        return None
    settings = (f"spark.delta.logStore.{scheme}.impl", f"delta.logStore.{scheme}.impl", "spark.delta.logStore.class")
    chosen = next(filter(None, (spark.conf.get(name, None) for name in settings)), _DEFAULT)
    if chosen.endswith(_FOR_SEVERAL_DRIVERS):
        return None
    return (
        f"on S3 the log store {chosen} lets a commit of one driver replace another's, so the lease is no fence: "
        "start no second job on these tables, and write them from nowhere else (docs/cluster.md)"
    )


def _place_of(spark: SparkSession, location: TableLocation) -> str:
    if location.warehouse is not None:
        return str(location.warehouse)
    return str(spark.sql(f"DESCRIBE DETAIL {location.sql_name(JOB_LEASE.name)}").collect()[0].location)
