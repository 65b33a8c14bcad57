"""What a laptop has in place of a cluster and a workspace: Spark with Java and jars, notebooks, demos, servers.

Once this package is imported, a job that finds no Spark session starts one on this machine. A cluster does not have it.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sessionization.spark.engine.local_start import use_local_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _start(log_file: Path, conf: dict[str, str]) -> "SparkSession":
    from sessionization_laptop.engine.local_session import local_session  # imports Spark, which takes a second

    return local_session(log_file, conf)


use_local_engine(_start)
