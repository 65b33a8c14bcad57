"""The texts of the repository."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.notebook_cells import read_cells

ROOT = Path(__file__).parents[2]
LAPTOP_ONLY = ("lib/sessionization_laptop/", "jobs/demo.py", "jobs/query.py")


def sources() -> Iterator[tuple[str, str]]:
    """What runs on Databricks: path below the repository and text."""
    for file in (*(ROOT / "lib").rglob("*.py"), *(ROOT / "jobs").glob("*.py"), *(ROOT / "tests/nutter").glob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith(LAPTOP_ONLY):
            yield path, file.read_text(encoding="utf-8")
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        text = "\n".join(cell.source for cell in read_cells(notebook) if not cell.magic)
        yield notebook.relative_to(ROOT).as_posix(), text


def imports(source: str) -> Iterator[str]:
    """What a text imports, also in functions, as dotted names that end with the name that it imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)
