"""How Spark starts on a machine where nobody has started a session.

A cluster has its session. On a laptop the package `sessionization_laptop` has an engine, and says so here when it is
imported: this package never imports it, and a cluster does not have it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sessionization.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LocalStart = Callable[[Path, dict[str, str]], "SparkSession"]
"""Starts a session: with the file of the engine's log, and Spark settings by name."""
_starts: list[LocalStart] = []


def use_local_engine(start: LocalStart) -> None:
    """From now on, `start` starts the session where nobody has started one."""
    _starts[:] = [start]


def start_local_engine(log_file: Path, conf: dict[str, str]) -> "SparkSession":
    """Start the session on this machine; raises `SetupError` where nothing here can start one."""
    if not _starts:
        msg = (
            "there is no Spark session: run this with spark-submit (docs/cluster.md), or in a clone after `make setup`"
        )
        raise SetupError(msg)
    return _starts[0](log_file, conf)
