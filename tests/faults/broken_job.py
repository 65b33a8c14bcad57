"""The job with a sink that is broken on purpose: `broken_job.py MUTATION OPTION...`."""

import runpy
import sys
import uuid
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from sessionization.spark.output.sinks import SinkContext
from sessionization.spark.tables.schemas import SESSION_CHANGES, Table

_ENTRY = Path(__file__).parents[2] / "jobs" / "sessionize.py"
_DROPPED_EVERY = 4
_append = SinkContext.append
_this_start = uuid.uuid4().hex


def _not_idempotent(context: SinkContext, rows: DataFrame, table: Table, batch_id: int) -> None:
    """A writer with a new id at each start: a table accepts a repeated micro-batch again."""
    _append(replace(context, writer_id=f"{_this_start}/{context.writer_id}"), rows, table, batch_id)


def _dropping(context: SinkContext, rows: DataFrame, table: Table, batch_id: int) -> None:
    """A sink that now and then writes nothing, and reports success."""
    if table is not SESSION_CHANGES or batch_id % _DROPPED_EVERY:
        _append(context, rows, table, batch_id)


MUTATIONS = {"not-idempotent": _not_idempotent, "dropping": _dropping}

if __name__ == "__main__":
    setattr(SinkContext, "append", MUTATIONS[sys.argv.pop(1)])  # noqa: B010 - a method is not assigned to
    runpy.run_path(str(_ENTRY), run_name="__main__")
