"""A notebook run from its first cell to its last without a browser, by nbclient."""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessionization.local.session import SHORT_LIVED_JVM

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
_CELL_S = 300


@dataclass(frozen=True, slots=True)
class Executed:
    """A notebook after it was run."""

    notebook: Any

    def pictures(self) -> list[bytes]:
        """Every PNG that is shown."""
        return [
            base64.b64decode(output["data"]["image/png"]) for output in self._shown() if "image/png" in output["data"]
        ]

    def tables(self) -> list[str]:
        """Every table that is shown, as HTML."""
        return [html for output in self._shown() if "<table" in (html := output["data"].get("text/html", ""))]

    def text(self) -> str:
        """All that is printed."""
        printed = (output for cell in self._cells() for output in cell["outputs"] if output["output_type"] == "stream")
        return "".join(output["text"] for output in printed)

    def results(self) -> list[str]:
        """The values of last lines, as text."""
        return [output["data"]["text/plain"] for output in self._shown() if output["output_type"] == "execute_result"]

    def _cells(self) -> Iterator[Any]:
        return (cell for cell in self.notebook["cells"] if cell["cell_type"] == "code")

    def _shown(self) -> Iterator[Any]:
        return (output for cell in self._cells() for output in cell["outputs"] if "data" in output)


def environment(folder: Path, widgets: Mapping[str, str]) -> dict[str, str]:
    """What a kernel inherits: where the demo is, and the widgets' values."""
    paths = (str(ROOT / "lib"), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM,
        "SESSIONIZATION_NOTEBOOKS": str(folder),
        "SESSIONIZATION_WIDGETS": json.dumps(dict(widgets)),
        # No configuration of this user's, and no history.
        "JUPYTER_CONFIG_DIR": str(folder / "jupyter"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


def execute(name: str, folder: Path, widgets: Mapping[str, str]) -> Executed:
    """Run a notebook of this project as Jupyter would.

    Raises nbclient's `CellExecutionError`, with the cell and its traceback, for the first error.
    """
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=_CELL_S, resources={"metadata": {"path": str(ROOT / "notebooks")}})
    client.execute(env=environment(folder, widgets))
    return Executed(notebook)
