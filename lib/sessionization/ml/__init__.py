"""Runs of the stream in MLflow: stored while the stream runs, and compared afterwards."""

import logging
import os


def configure_mlflow_import() -> None:
    """Set what MLflow reads at import: no telemetry, and no log lines about the set-up of its store."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)
