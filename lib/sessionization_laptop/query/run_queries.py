"""Answer one query, or those of a person at a prompt: by DuckDB where it says what Spark would, else by Spark."""

import sys
import time
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import HadoopPath
from sessionization.say import Say
from sessionization.settings.table_location_settings import FolderTables
from sessionization.spark.tables.schemas import QUERIED_TABLES, REQUIRED_TABLES
from sessionization.spark.tables.view_sql import VIEWS
from sessionization_laptop.query.answer import Answer, as_table
from sessionization_laptop.query.duckdb_answers import duckdb_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_queries(tables: FolderTables, sql: str | None, rows: int, say: Say) -> None:
    """Print at most `rows` rows of the result, with all times in UTC; without `sql` ask for queries.

    Raises `ConfigurationError` when the folder holds no tables, the statement is wrong, or nobody is there to ask.
    """
    console = Console()
    with ExitStack() as stack:
        queries = _Queries(tables, rows, say, stack)
        if sql is not None:
            console.print(as_table(queries.answer(sql), console))
            return
        if not sys.stdin.isatty():
            msg = '--sql is missing: give a query (make sql Q="SELECT …"), or run this in a terminal'
            raise ConfigurationError(msg)
        from sessionization_laptop.query.shell import ask_queries

        def show(statement: str) -> None:
            began = time.monotonic()
            try:
                answer = queries.answer(statement)
            except ConfigurationError as error:
                console.print(str(error).removeprefix("--sql: "), style="red", highlight=False, markup=False)
                return
            console.print(as_table(answer, console))
            console.print(f"rows: {len(answer.rows)}, {time.monotonic() - began:.1f} s", style="dim", highlight=False)

        say("a query ends with ; and Tab completes names; Ctrl-D ends")
        columns = (name for table in QUERIED_TABLES for name in (table.name, *table.column_names))
        ask_queries((*VIEWS, *columns), show)


class _Queries:
    """The engines that answer. Spark starts at the first query that needs it, and stays until `stack` is closed."""

    def __init__(self, tables: FolderTables, rows: int, say: Say, stack: ExitStack) -> None:
        self._warehouse, self._rows, self._say, self._stack = tables.warehouse, rows, say, stack
        if isinstance(self._warehouse, HadoopPath):  # only Spark knows its storage
            from sessionization.spark.engine.session import session_for_uris

            stack.enter_context(session_for_uris(tables, say))
        if not all((self._warehouse / table.name / "_delta_log").is_dir() for table in REQUIRED_TABLES):
            given = f"--warehouse {self._warehouse}"
            msg = f"{given} does not hold the tables: give the folder that the sessionize job writes into"
            raise ConfigurationError(msg)

    def answer(self, sql: str) -> Answer:
        """The answer to one statement. Raises `ConfigurationError` where it is wrong."""
        if isinstance(self._warehouse, Path) and (found := duckdb_answer(self._warehouse, sql, self._rows)) is not None:
            return found
        from sessionization.spark.tables.location import TableLocation
        from sessionization_laptop.query.spark_answers import spark_answer

        return spark_answer(self._spark, TableLocation(self._warehouse), sql, self._rows, self._say)

    @cached_property
    def _spark(self) -> "SparkSession":
        from sessionization.spark.engine.job_conf import TIME_ZONE_CONF
        from sessionization.spark.engine.session import job_session

        self._say("this query needs Spark, which takes 10 to 20 s to start")
        return self._stack.enter_context(job_session(depends_on=TIME_ZONE_CONF))
