"""Notebooks run from the first cell to the last without a browser, by nbclient."""

import base64
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SHOWN = {
    "01_tour": (5, 2),
    "02_sessionize": (1, 0),
    "03_query_sessions": (7, 7),
    "04_inspect_state": (5, 3),
    "05_compare_runs": (4, 1),
    "06_predict_remaining": (2, 2),
    "07_players": (5, 3),
}
"""The number of pictures and of tables that each notebook shows; a picture that updates counts once."""
_CELL_S = 300
_TOOL_CACHES = {"__pycache__", ".pytest_cache", ".ipynb_checkpoints", ".ruff_cache", ".mypy_cache", ".hypothesis"}


def project_entries() -> set[Path]:
    """Files and folders in the project's folder and in its folder `notebooks`, without the caches of tools."""
    found = {entry for folder in (ROOT, ROOT / "notebooks") for entry in folder.iterdir()}
    return {entry for entry in found if entry.name not in _TOOL_CACHES}


@dataclass(frozen=True, slots=True)
class Executed:
    """An executed notebook: its cells with their outputs."""

    cells: Sequence[Any]

    def pictures(self) -> list[bytes]:
        """Every PNG that the notebook shows."""
        return [
            base64.b64decode(output["data"]["image/png"]) for output in self._shown() if "image/png" in output["data"]
        ]

    def tables(self) -> list[str]:
        """Every table that the notebook shows, as HTML."""
        return [html for output in self._shown() if "<table" in (html := output["data"].get("text/html", ""))]

    def text(self) -> str:
        """Everything that the cells print."""
        printed = (output for cell in self._cells() for output in cell["outputs"] if output["output_type"] == "stream")
        return "".join(output["text"] for output in printed)

    def results(self) -> list[str]:
        """The value of each cell's last line, as text."""
        return [output["data"]["text/plain"] for output in self._shown() if output["output_type"] == "execute_result"]

    def errors(self) -> list[str]:
        """Every error that a cell raised, as the notebook shows it."""
        outputs = (output for cell in self._cells() for output in cell["outputs"])
        return ["\n".join(output["traceback"]) for output in outputs if output["output_type"] == "error"]

    def assert_shows(self, name: str) -> None:
        """Assert that this is what a notebook shows: no error, and in each picture and table something."""
        assert self.errors() == []
        pictures, tables = self.pictures(), self.tables()
        assert (len(pictures), len(tables)) == SHOWN[name]
        for picture in pictures:
            assert _coloured_pixels(picture) > 50, "a picture shows axes and nothing in them"
        for table in tables:
            assert re.search(r"<tbody>\s*<tr", table), f"a table has no rows: {table[:200]}"

    def _cells(self) -> Iterator[Any]:
        return (cell for cell in self.cells if cell["cell_type"] == "code")

    def _shown(self) -> Iterator[Any]:
        return (output for cell in self._cells() for output in cell["outputs"] if "data" in output)


def _coloured_pixels(picture: bytes) -> int:
    """Count the pixels that are neither black, white nor grey; a chart without any shows empty axes."""
    from PIL import Image

    colours = Image.open(io.BytesIO(picture)).convert("RGB").quantize(64).convert("RGB").getcolors(1 << 20) or []
    return sum(count for count, channels in colours if max(channels) - min(channels) > 40)


def environment(folder: Path, widgets: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel: the folder of the demo, and the values of the widgets."""
    paths = (str(ROOT / "lib"), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM_OPTIONS,
        "SESSIONIZATION_NOTEBOOKS": str(folder),
        "SESSIONIZATION_WIDGETS": json.dumps(dict(widgets)),
        # Ignore the configuration and the history of the user who runs the tests.
        "JUPYTER_CONFIG_DIR": str(folder / "jupyter"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


def execute(names: Sequence[str], folder: Path, widgets: Mapping[str, str]) -> dict[str, Executed]:
    """Run notebooks of this project as Jupyter would, errors included, one after the other in one kernel.

    They share its Spark session, which takes longer to start than most notebooks take to run. The names that one
    notebook defines are deleted before the next one runs.
    """
    import nbformat
    from nbclient import NotebookClient

    combined, cells_of = nbformat.v4.new_notebook(), {}
    for name in names:
        cells_of[name] = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)["cells"]
        combined["cells"] += [nbformat.v4.new_code_cell("%reset -f"), *cells_of[name]]
    path = {"metadata": {"path": str(ROOT / "notebooks")}}
    client = NotebookClient(combined, timeout=_CELL_S, resources=path, allow_errors=True, kernel_name="python3")
    client.execute(env=environment(folder, widgets))
    return {name: Executed(cells) for name, cells in cells_of.items()}
