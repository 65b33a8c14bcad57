"""A Spark Connect server with tables, and a client that runs notebooks and jobs over it: a process for each.

Serverless and standard compute on Databricks give such a session: it has no JVM and no Spark context. The server has
Delta's SQL, and neither the plugin for `DeltaTable` nor the stream's settings, which nobody can set there.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from sessionization.command_line.parser import say_on_stderr, say_on_stdout
from tests.notebooks.workspace_cells import run_notebook
from tests.support.headless import ROOT

CATALOG = "spark_catalog"


def serve(port: int, warehouses: dict[str, str]) -> None:
    """Register the tables of each warehouse and their views in a schema; print a line, then serve until stdin ends."""
    from sessionization.spark.engine.job_conf import DELTA_CONF
    from sessionization.spark.tables.location import TableLocation
    from sessionization.spark.tables.metric_views import create_metric_views
    from sessionization.spark.tables.schemas import PLAYER_TABLES, TABLES
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
        folders = TableLocation(Path(warehouse))
        for table in folders.present(spark, (*TABLES, *PLAYER_TABLES)):
            spark.sql(f"CREATE TABLE {location.sql_name(table.name)} USING delta LOCATION '{warehouse}/{table.name}'")
        create_views(spark, location)
        create_metric_views(spark, location, say_on_stderr("serve"))
    say_on_stdout("ready")
    sys.stdin.read()
    spark.stop()


def play(address: str, steps: list[tuple[str, str, dict[str, str] | list[str]]]) -> None:
    """Run notebooks, each with its widgets, and jobs, each with its options, and print a line of JSON for each."""
    from pyspark.sql import SparkSession

    os.environ["SPARK_REMOTE"] = address  # as a workspace sets it
    spark = SparkSession.builder.remote(address).getOrCreate()
    for kind, name, given in steps:
        said, code, shown = io.StringIO(), 0, None
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                if kind == "notebook":
                    shown = run_notebook(name, spark, dict(given))
                else:
                    sys.argv = [name, *given]
                    runpy.run_path(str(ROOT / "jobs" / f"{name}.py"), run_name="__main__")
            except SystemExit as ended:
                code = int(ended.code or 0)
            except Exception:  # noqa: BLE001 - the other steps still run
                code = 1
                traceback.print_exc()
        say_on_stdout(json.dumps({"code": code, "said": said.getvalue(), "shown": shown}))
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]), json.loads(sys.argv[3]))
    else:
        play(sys.argv[2], json.loads(sys.argv[3]))
