"""Whether this process runs on Databricks, and where its driver logs."""

import os
import tempfile
from pathlib import Path

_DRIVER_LOGS = Path("/databricks/driver/logs")


def on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def driver_log_folder() -> Path:
    """The folder of the driver's logs on its local disk, or the temporary folder where there is none."""
    return _DRIVER_LOGS if _DRIVER_LOGS.is_dir() else Path(tempfile.gettempdir())
