"""MLflow: runs of the stream, stored and compared; and a model of how long a live session will go on."""

import importlib.util
import logging
import os

from sessionization.errors import ConfigurationError
from sessionization.optional_packages import how_to_install


def configure_mlflow_import() -> None:
    """Set what MLflow reads at import: no telemetry, and no log lines about the set-up of its store."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    logging.getLogger("alembic").setLevel(logging.WARNING)


def require_mlflow() -> None:
    """Prepare the import of MLflow; raises `ConfigurationError` where it is not installed."""
    require_package("mlflow", "MLflow", extra="mlflow")
    configure_mlflow_import()


def require_package(module: str, name: str, extra: str) -> None:
    """Raises `ConfigurationError` where a package is not installed, which an extra of this one has."""
    if importlib.util.find_spec(module) is None:
        msg = f"{name} is not installed: {how_to_install(extra)}, or `make notebooks` on a laptop"
        raise ConfigurationError(msg)
