"""Whether this process runs on Databricks."""

import os


def on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ
