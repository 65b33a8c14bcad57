"""Whether this process runs on Databricks, and which task of the job runs the stream there."""

import os
from typing import Final, Literal

from sessionization.errors import ConfigurationError

ENTRY_POINTS: Final = ("notebook", "file")
ENTRY_POINT_VARIABLE: Final = "SESSIONIZATION_ENTRY_POINT"
"""Environment variable in which a job's cluster names the task that runs the stream."""


def on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def is_chosen(entry_point: Literal["notebook", "file"]) -> bool:
    """Whether this entry point runs the stream.

    A job starts both entry points and its cluster names one of them, so exactly one runs the stream. If the cluster
    names none, each entry point that is started runs it.

    Raises `ConfigurationError` where the cluster names anything else.
    """
    chosen = os.environ.get(ENTRY_POINT_VARIABLE, entry_point)
    if chosen not in ENTRY_POINTS:
        msg = (
            f"{ENTRY_POINT_VARIABLE} {chosen!r} is no entry point: deploy with entry_point {' or '.join(ENTRY_POINTS)}"
        )
        raise ConfigurationError(msg)
    return chosen == entry_point
