"""Runs of the stream in MLflow: kept beside it, and compared afterwards."""

import logging
import os


def configure_mlflow_import() -> None:
    """What MLflow reads when it is imported: it must not call home, nor tell how it sets up its store."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)
