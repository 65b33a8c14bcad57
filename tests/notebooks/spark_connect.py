"""A Spark Connect server with tables, and clients that run a notebook or a job over it: a process for each.

Serverless and standard compute on Databricks give such a session: it has no JVM and no Spark context. The server has
Delta's SQL, and neither the plugin for `DeltaTable` nor the stream's settings, which nobody can set there.
"""

import json
import os
import runpy
import sys
from pathlib import Path

from sessionization.command_line.parser import say_on_stdout
from tests.notebooks.workspace_cells import run_notebook
from tests.support.headless import ROOT

CATALOG = "spark_catalog"


def serve(port: int, warehouses: dict[str, str]) -> None:
    """Register the tables of each warehouse and their views in a schema; print a line, then serve until stdin ends."""
    from sessionization.spark.engine.job_conf import DELTA_CONF
    from sessionization.spark.tables.location import TableLocation
    from sessionization.spark.tables.schemas import TABLES
    from sessionization.spark.tables.views import create_views
    from sessionization_laptop.engine.local_session import local_session

    server = {
        "spark.master": "local[2]",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    folder = Path(next(iter(warehouses.values()))).with_name("connect")
    spark = local_session(folder / "engine.log", DELTA_CONF | server)
    for schema, warehouse in warehouses.items():
        spark.sql(f"CREATE SCHEMA {CATALOG}.{schema} LOCATION '{warehouse}'")
        location = TableLocation(None, CATALOG, schema)
        for table in TABLES:
            spark.sql(f"CREATE TABLE {location.sql_name(table.name)} USING delta LOCATION '{warehouse}/{table.name}'")
        create_views(spark, location)
    say_on_stdout("ready")
    sys.stdin.read()
    spark.stop()


def run_job(name: str, options: list[str]) -> None:
    """Run a job's script as a task does."""
    sys.argv = [name, *options]
    runpy.run_path(str(ROOT / "jobs" / f"{name}.py"), run_name="__main__")


def main(command: str, words: list[str]) -> None:
    if command == "serve":
        serve(int(words[0]), json.loads(words[1]))
        return
    name, address, *options = words
    os.environ["SPARK_REMOTE"] = address  # as a workspace sets it
    if command == "job":
        run_job(name, options)
    else:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.remote(address).getOrCreate()
        say_on_stdout(json.dumps(run_notebook(name, spark, json.loads(options[0]))))
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
