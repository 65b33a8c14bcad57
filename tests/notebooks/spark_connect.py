"""A Spark Connect server with the demo's tables, and a client that runs a notebook over it: a process for each.

Serverless and standard compute on Databricks give a notebook such a session: it has no JVM and no Spark context.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from sessionization.command_line.parser import say_on_stdout
from sessionization.local.laptop_notebook import LaptopDbutils
from sessionization.local.notebook_cells import run_cells
from tests.notebooks.headless import ROOT

CATALOG, SCHEMA = "spark_catalog", "games"


def serve(warehouse: Path, port: int) -> None:
    """Register the tables of a warehouse and their views in a schema; print a line, then serve until stdin ends."""
    from sessionization.local_engine.local_session import local_session
    from sessionization.spark.engine.session import OPEN_SOURCE_CONF
    from sessionization.spark.tables.location import TableLocation
    from sessionization.spark.tables.schemas import TABLES
    from sessionization.spark.tables.views import create_views

    server = {
        "spark.master": "local[2]",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    spark = local_session(warehouse.with_name("connect") / "engine.log", OPEN_SOURCE_CONF | server)
    spark.sql(f"CREATE SCHEMA {CATALOG}.{SCHEMA}")
    location = TableLocation(None, CATALOG, SCHEMA)
    for table in TABLES:
        spark.sql(f"CREATE TABLE {location.sql_name(table.name)} USING delta LOCATION '{warehouse / table.name}'")
    create_views(spark, location)
    say_on_stdout("ready")
    sys.stdin.read()
    spark.stop()


def run_notebook(name: str, address: str, widgets: dict[str, str]) -> Counter[str]:
    """Run a notebook as a workspace does, and count what it shows by type; every table is fetched."""
    from pyspark.sql import SparkSession

    spark: Any = SparkSession.builder.remote(address).getOrCreate()
    shown: Counter[str] = Counter()

    def display(value: Any) -> None:
        if hasattr(value, "collect"):
            assert value.collect(), f"table {shown['table'] + 1} of {name} has no rows"
        shown["table" if hasattr(value, "collect") else type(value).__name__] += 1

    namespace = {"spark": spark, "dbutils": LaptopDbutils(spark, ROOT, widgets), "display": display}
    magics = {"%sql": lambda source, _folder: display(spark.sql(source.strip().removesuffix(";")))}
    run_cells(ROOT / "notebooks" / f"{name}.ipynb", namespace, magics)
    spark.stop()
    return shown


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "serve":
        serve(Path(words[0]), int(words[1]))
    else:
        say_on_stdout(json.dumps(run_notebook(words[0], words[1], json.loads(words[2]))))
