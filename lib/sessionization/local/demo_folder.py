"""The folder with the demo tables and widget values for notebooks on a laptop."""

import os
from pathlib import Path

WIDGETS_FILE = "widgets.json"
INPUT = "input"
_FOLDER = ".notebooks"
_PROJECT_ROOT_FILE = "databricks.yml"


def demo_folder() -> Path:
    """Find the folder of the notebooks' demo tables and MLflow store.

    That is `SESSIONIZATION_NOTEBOOKS` if set, or `.notebooks` in the project (outside it: in the current folder).
    """
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / _PROJECT_ROOT_FILE).is_file()), here)
    return Path(os.environ.get("SESSIONIZATION_NOTEBOOKS", root / _FOLDER)).absolute()
