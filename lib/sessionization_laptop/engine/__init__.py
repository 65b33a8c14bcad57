"""A Spark engine on this machine: its Java, its jars, its session. Never imported on Databricks."""

import sys
from pathlib import Path

ENGINE_FOLDER = Path(sys.prefix) / "share" / "sessionization"
"""Jars, the launcher of the wheel's Java, and the archive of classes; the folder may belong to another user."""
