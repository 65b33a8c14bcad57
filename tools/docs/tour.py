"""Run the notebook 01_tour, two minutes, and write the page of it for the site: `python -m tools.docs.tour`."""

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "01_tour.ipynb"
TOUR = ROOT / "build" / "tour"
"""The page and its pictures, until `python -m tools.docs` takes them into the site."""


def main() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with TemporaryDirectory() as folder:
        path = {"metadata": {"path": str(NOTEBOOK.parent)}}
        client = NotebookClient(notebook, resources=path, timeout=300, kernel_name="python3")
        client.execute(env=os.environ | {"SESSIONIZATION_NOTEBOOKS": folder})
    shutil.rmtree(TOUR, ignore_errors=True)
    TOUR.mkdir(parents=True)
    (TOUR / "tour.md").write_text("\n\n".join(blocks(notebook["cells"])) + "\n", encoding="utf-8")


def add_tour(folder: Path) -> None:
    """Copy the page and its pictures into a folder of the site, or a page that says how to make them."""
    if TOUR.is_dir():
        shutil.copytree(TOUR, folder, dirs_exist_ok=True)
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tour.md").write_text(
        "# A tour of an evening\n\n`make docs-tour docs` runs the notebook [01_tour](../../notebooks/01_tour.ipynb), "
        "which takes two minutes, and shows it here with its pictures.\n",
        encoding="utf-8",
    )


def blocks(cells: list[Any]) -> Iterator[str]:
    """The notebook in Markdown; its pictures become files."""
    first_code = next(cell for cell in cells if cell["cell_type"] == "code")  # it makes a laptop like a workspace
    heading = ""
    for cell in (cell for cell in cells if cell is not first_code):
        source = cell["source"]
        if cell["cell_type"] == "markdown":
            heading = next((line.lstrip("# ") for line in source.splitlines() if line.startswith("#")), heading)
            yield source
            continue
        language, _, statement = source.partition("\n") if source.startswith("%sql") else ("", "", "")
        yield f"```sql\n{statement}\n```" if language else f"```python\n{source}\n```"
        for output in cell["outputs"]:
            yield from shown(output, heading)


def shown(output: Any, heading: str) -> Iterator[str]:
    """What a cell shows: a picture, a table, or text. Warnings are left out."""
    data = output.get("data", {})
    if "image/png" in data:
        name = f"tour-{len(list(TOUR.iterdir()))}.png"
        (TOUR / name).write_bytes(base64.b64decode(data["image/png"]))
        yield f"[![{heading}]({name})]({name})"  # a phone shows it in full where it leads to
    elif "text/html" in data:
        yield data["text/html"].replace('<table border="1" class="dataframe">', "<table>")
    elif text := data.get("text/plain") or (output.get("text", "") if output.get("name") == "stdout" else ""):
        yield f"```text\n{text.strip()}\n```"


if __name__ == "__main__":
    main()
