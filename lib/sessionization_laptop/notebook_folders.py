"""The folder with tables for notebooks on a laptop, and the values of their widgets."""

import json
import os
from pathlib import Path

from sessionization.event_map.reading import PLAYSTATION
from sessionization.files import write_atomically

WIDGETS_FILE = "widgets.json"
INPUT = "input"
_PROJECT_ROOT_FILE = "databricks.yml"


def notebook_data_folder() -> Path:
    """The folder of `make notebook-data`: `SESSIONIZATION_NOTEBOOKS` if set, or `.notebooks` in the project.

    Outside the project it is in the current folder.
    """
    return Path(os.environ.get("SESSIONIZATION_NOTEBOOKS", _root() / ".notebooks")).absolute()


def notebook_tables_folder() -> Path:
    """The folder whose tables the notebooks open: `make notebook-data`'s, or if only `make demo` ran, `.demo`."""
    folder = notebook_data_folder()
    demo = _root() / ".demo"
    return demo if (demo / WIDGETS_FILE).is_file() and not (folder / WIDGETS_FILE).is_file() else folder


def _root() -> Path:
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / _PROJECT_ROOT_FILE).is_file()), here)


def write_widget_values(folder: Path, *, heartbeat: str) -> None:
    """Write the values of the notebooks' widgets, by widget name, for the tables in a folder."""
    values = {name: str(folder.absolute() / name) for name in (INPUT, "warehouse", "checkpoints")}
    values |= {"heartbeat": heartbeat, "events": PLAYSTATION, "run-for": "1m"}
    write_atomically(folder / WIDGETS_FILE, json.dumps(values, indent=2))
