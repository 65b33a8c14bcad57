"""The job with a sink that is broken on purpose: `broken_job.py MUTATION OPTION...`."""

import runpy
import sys
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import SESSION_CHANGES, Table

_ENTRY = Path(__file__).parents[2] / "jobs" / "sessionize.py"
_DROPPED_EVERY = 4
_append_once = TableLocation.append_once
_this_start = uuid.uuid4().hex


def _not_idempotent(location: TableLocation, rows: DataFrame, table: Table, **batch: Any) -> None:
    """A writer with a new id at each start: Delta accepts a repeated micro-batch again."""
    _append_once(location, rows, table, **batch | {"writer_id": f"{_this_start}/{batch['writer_id']}"})


def _dropping(location: TableLocation, rows: DataFrame, table: Table, **batch: Any) -> None:
    """A sink that now and then writes nothing, and reports success."""
    if table is not SESSION_CHANGES or batch["batch_id"] % _DROPPED_EVERY:
        _append_once(location, rows, table, **batch)


MUTATIONS = {"not-idempotent": _not_idempotent, "dropping": _dropping}

if __name__ == "__main__":
    setattr(TableLocation, "append_once", MUTATIONS[sys.argv.pop(1)])  # noqa: B010 - a method is not assigned to
    runpy.run_path(str(_ENTRY), run_name="__main__")
