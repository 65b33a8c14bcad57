"""Where the notebooks on a laptop find their demo tables and the values of their widgets."""

import os
from pathlib import Path

WIDGETS_FILE = "widgets.json"
INPUT = "input"
_FOLDER = ".notebooks"
_PROJECT_ROOT_FILE = "databricks.yml"


def demo_folder() -> Path:
    """The folder of the demo's tables and of this machine's MLflow store for notebooks: `.notebooks` of the project."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / _PROJECT_ROOT_FILE).is_file()), here)
    return Path(os.environ.get("SESSIONIZATION_NOTEBOOKS", root / _FOLDER)).absolute()
