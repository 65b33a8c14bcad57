"""Compact what is over, delete what is not referred to: `OPTIMIZE` and `VACUUM`, safe beside the stream."""

import contextlib
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.ops.settings import MaintainSettings
from sessionization.spark.causes import first_cause
from sessionization.spark.lock import locked
from sessionization.spark.session import on_databricks, spark_session
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import QUARANTINE, RAW_EVENTS, SESSION_CHANGES, TABLES

_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, and the table that it is for."""

    table: str
    sql: str


def steps(home: TableHome, days: int, retention_ms: int) -> list[Step]:
    """What is to be done, in order.

    A day that is still written to is left alone. So is `sessions`, which the stream compacts itself between two of its
    own MERGEs: one of an `OPTIMIZE` and a MERGE of the same files fails, and a MERGE that fails ends the stream.

    Args:
        home: where the tables are.
        days: how many of the days that are over are compacted, counted back from today.
        retention_ms: how old a file must be that is deleted.
    """
    compact = [
        Step(
            table.name,
            f"OPTIMIZE {home.sql_name(table.name)} WHERE {day} >= date_sub(current_date(), {days}) "
            f"AND {day} < current_date()",
        )
        for table in (SESSION_CHANGES, RAW_EVENTS, QUARANTINE)
        for day in table.partitioned_by
    ]
    hours = -(-retention_ms // _HOUR_MS)
    delete = [Step(table.name, f"VACUUM {home.sql_name(table.name)} RETAIN {hours} HOURS") for table in TABLES]
    return compact + delete


def maintain(settings: MaintainSettings, say: Callable[[str], None], stop: threading.Event) -> None:
    """Do the steps one after the other, until `stop` is set.

    A step that meets a change of the same files by somebody else is put off to the next time.

    Raises `ConfigurationError` when the tables are not there, and `CheckpointError` when the job runs on folders.
    """
    home = TableHome(settings.warehouse, settings.catalog, settings.schema_name)
    with contextlib.ExitStack() as stack:
        if settings.checkpoints is not None:
            stack.enter_context(locked(settings.checkpoints, say, stop))
        spark = spark_session(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "engine.log")
        if not on_databricks():
            stack.callback(spark.stop)
        missing = [table.name for table in TABLES if not home.exists(spark, table)]
        if missing:
            msg = f"{home} does not hold {', '.join(missing)}: give the home of the sessionize job's tables"
            raise ConfigurationError(msg)
        for step in steps(home, settings.days, settings.retention):
            if stop.is_set():
                say("stopped; the rest is left to the next time")
                return
            _do(spark, step, say)


def _do(spark: SparkSession, step: Step, say: Callable[[str], None]) -> None:
    verb = step.sql.partition(" ")[0]
    try:
        spark.sql(step.sql).collect()
    except (PySparkException, Py4JError) as error:
        cause = first_cause(str(error))
        if "concurrent" not in str(error).lower():
            msg = f"{verb} of {step.table} failed: {cause}"
            raise ConfigurationError(msg) from error
        say(f"{verb} of {step.table} is put off to the next time: {cause}")
    else:
        say(f"{verb} of {step.table} is done")
