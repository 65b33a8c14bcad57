"""Notebooks run from the first cell to the last without a browser, by nbclient."""

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.jvm import JVM_OPTIONS

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SHOWN = {
    "01_tour": (2, 0),
    "02_sessionize": (1, 0),
    "03_query_sessions": (6, 6),
    "04_inspect_state": (5, 4),
    "05_compare_runs": (2, 1),
}
"""How many pictures and tables a notebook shows; of a picture that updates, the last."""
_CELL_S = 300
_OF_TOOLS = {"__pycache__", ".pytest_cache", ".ipynb_checkpoints", ".ruff_cache", ".mypy_cache", ".hypothesis"}


def beside_the_code() -> set[Path]:
    """What is in the project's folder and in that of the notebooks, other than the caches of its tools."""
    found = {entry for folder in (ROOT, ROOT / "notebooks") for entry in folder.iterdir()}
    return {entry for entry in found if entry.name not in _OF_TOOLS}


@dataclass(frozen=True, slots=True)
class Executed:
    """A notebook after it was run, by its cells."""

    cells: Sequence[Any]

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

    def errors(self) -> list[str]:
        """What cells raised, as it is shown."""
        outputs = (output for cell in self._cells() for output in cell["outputs"])
        return ["\n".join(output["traceback"]) for output in outputs if output["output_type"] == "error"]

    def _cells(self) -> Iterator[Any]:
        return (cell for cell in self.cells if cell["cell_type"] == "code")

    def _shown(self) -> Iterator[Any]:
        return (output for cell in self._cells() for output in cell["outputs"] if "data" in output)


def environment(folder: Path, widgets: Mapping[str, str]) -> dict[str, str]:
    """What a kernel inherits: where the demo is, and the widgets' values."""
    paths = (str(ROOT / "lib"), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "JAVA_TOOL_OPTIONS": JVM_OPTIONS,
        "SESSIONIZATION_NOTEBOOKS": str(folder),
        "SESSIONIZATION_WIDGETS": json.dumps(dict(widgets)),
        # No configuration of this user's, and no history.
        "JUPYTER_CONFIG_DIR": str(folder / "jupyter"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


def execute(names: Sequence[str], folder: Path, widgets: Mapping[str, str]) -> dict[str, Executed]:
    """Run notebooks of this project as Jupyter would, errors included, one after the other in one kernel.

    They share its Spark session, which takes longer to start than most of them to run; the names that one has made are
    forgotten before the next.
    """
    import nbformat
    from nbclient import NotebookClient

    whole, parts = nbformat.v4.new_notebook(), {}
    for name in names:
        parts[name] = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)["cells"]
        whole["cells"] += [nbformat.v4.new_code_cell("%reset -f"), *parts[name]]
    path = {"metadata": {"path": str(ROOT / "notebooks")}}
    client = NotebookClient(whole, timeout=_CELL_S, resources=path, allow_errors=True, kernel_name="python3")
    client.execute(env=environment(folder, widgets))
    return {name: Executed(cells) for name, cells in parts.items()}
