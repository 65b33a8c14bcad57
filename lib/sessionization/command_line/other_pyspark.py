"""Another PySpark than the environment's, which `PYTHONPATH` puts before it."""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

from sessionization.databricks import on_databricks
from sessionization.errors import SetupError

_PACKAGES = ("pyspark", "py4j")


def refuse_other_pyspark() -> None:
    """Raises `SetupError` if it does; under `spark-submit`, whose PySpark it is, and on Databricks nothing is checked.

    Python's workers inherit `PYTHONPATH`, so it is not enough to change `sys.path`.
    """
    if on_databricks() or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    given = {Path(folder).absolute() for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder}
    own = [folder for folder in sys.path if Path(folder).absolute() not in given]
    for package in _PACKAGES if given else ():
        found, ours = PathFinder.find_spec(package), PathFinder.find_spec(package, own)
        if found is not None and ours is not None and found.origin != ours.origin:
            msg = f"PYTHONPATH has another {package} ({found.origin}), not ours: unset PYTHONPATH"
            raise SetupError(msg)
