"""Whether this process runs on Databricks, and which of the job's tasks runs the stream there."""

import os
from typing import Final, Literal

from sessionization.errors import ConfigurationError

ENTRY_POINTS: Final = ("notebook", "file")
ENTRY_POINT_VARIABLE: Final = "SESSIONIZATION_ENTRY_POINT"
"""Environment variable by which a job's cluster names the one of its tasks that runs the stream."""


def on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def is_chosen(entry_point: Literal["notebook", "file"]) -> bool:
    """Whether the stream is this entry point's to run.

    A job starts both, and its cluster names one: so exactly one goes on. Where none is named, whoever was started is.

    Raises `ConfigurationError` where something else is named.
    """
    chosen = os.environ.get(ENTRY_POINT_VARIABLE, entry_point)
    if chosen not in ENTRY_POINTS:
        msg = (
            f"{ENTRY_POINT_VARIABLE} {chosen!r} is no entry point: deploy with entry_point {' or '.join(ENTRY_POINTS)}"
        )
        raise ConfigurationError(msg)
    return chosen == entry_point
