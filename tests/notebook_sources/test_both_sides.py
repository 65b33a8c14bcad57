"""Both sides have every `spark`, `dbutils`, `%sql` and `%run` that notebooks use: Databricks and a laptop.

Databricks is represented by the SDK's description of `dbutils` and by Spark's classes, a laptop by the project's own
stand-ins. No cell is run.
"""

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import databricks.sdk
import pytest
from pyspark.sql import SparkSession

from sessionization.spark.tables.schemas import SESSION_PREDICTIONS, TABLES
from sessionization.spark.tables.views import VIEWS
from sessionization_laptop import notebook_cells as files
from sessionization_laptop.laptop_notebook import LaptopDbutils
from tests.support.headless import ROOT


def load_source(file: Path) -> ModuleType:
    """Load a module without its package, because importing the package looks for a workspace."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


DBUTILS = load_source(Path(databricks.sdk.__file__).parent / "runtime" / "dbutils_stub.py").dbutils
NOTEBOOKS = [*sorted((ROOT / "notebooks").glob("*.ipynb")), *sorted((ROOT / "tests/nutter").glob("[!_c]*.py"))]
_MAGICS = {"%sql", "%run"}
_BOOTSTRAP = "if not on_databricks():"


def cells_of(file: Path) -> list[files.Cell]:
    return list(files.read_cells(file))


def chains(cell: files.Cell) -> Iterator[tuple[ast.Attribute, list[str], ast.Call | None]]:
    """Every whole chain `spark.a.b` or `dbutils.a.b` of a cell, with its names and, if it is called, the call."""
    tree = ast.parse(cell.source)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    within = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in within:
            names, root = [node.attr], node.value
            while isinstance(root, ast.Attribute):
                names, root = [root.attr, *names], root.value
            if isinstance(root, ast.Name) and root.id in {"spark", "dbutils"}:
                yield node, [root.id, *names], calls.get(id(node))


def mistakes_of(cell: files.Cell, folder: Path) -> list[str]:
    """Everything that a cell uses and one of the two sides does not have."""
    if cell.magic == "%run":
        return [] if files.find_notebook(cell.source, folder) else [f"%run {cell.source}: there is no such notebook"]
    if cell.magic == "%sql":
        return _sql_mistakes(cell.source)
    if cell.magic:
        return [f"{cell.magic} is not one of {', '.join(sorted(_MAGICS))}"]
    found = [] if _BOOTSTRAP in cell.source else _local_only(cell.source)
    for _node, names, call in chains(cell):
        found += _missing(names, call)
    if re.search(r"^\s*[!%]", cell.source, re.MULTILINE):
        found.append("a magic within a cell: Databricks takes it at the head of a cell only")
    return found


def _local_only(source: str) -> list[str]:
    imported = [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    ]
    one_sided = (
        "sessionization_laptop",
        "databricks.sdk",
        "pyspark.dbutils",
        "dbruntime",
    )
    return [f"{name} is there on one side only" for name in imported if name.startswith(one_sided)]


def _missing(names: list[str], call: ast.Call | None) -> list[str]:
    full_name = ".".join(names)
    if names[0] == "spark":
        return [] if hasattr(SparkSession, names[1]) else [f"{full_name} is not Spark's"]
    found = []
    for side, root in (("Databricks", DBUTILS), ("a laptop", LaptopDbutils(None, ROOT, {}))):
        target: Any = root
        for name in names[1:]:
            target = getattr(target, name, None)
        if target is None:
            found.append(f"{full_name} is not there on {side}")
        elif call is not None and callable(target):
            try:
                inspect.signature(target).bind(
                    *call.args, **{str(keyword.arg): keyword.value for keyword in call.keywords}
                )
            except TypeError as error:
                found.append(f"{full_name} cannot be called so on {side}: {error}")
    return found


def _sql_mistakes(sql: str) -> list[str]:
    known = {table.name for table in (*TABLES, SESSION_PREDICTIONS)} | {*VIEWS}
    found = [f"{name} is no table or view" for name in re.findall(r"\b(?:FROM|JOIN)\s+(\w+)", sql) if name not in known]
    if ";" in sql.rstrip().removesuffix(";"):
        found.append("two statements: a laptop's %sql takes one")
    return found


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=[file.stem for file in NOTEBOOKS])
def test_everything_that_a_notebook_uses_exists_on_both_sides(notebook: Path) -> None:
    found = [
        f"cell {cell.number}: {mistake}"
        for cell in cells_of(notebook)
        for mistake in mistakes_of(cell, notebook.parent)
    ]
    assert found == []


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda file: file.stem)
def test_the_first_cell_and_no_other_is_the_bootstrap(notebook: Path) -> None:
    assert [_BOOTSTRAP in cell.source for cell in cells_of(notebook)].index(True) == 0
    assert sum("sessionization_laptop" in cell.source for cell in cells_of(notebook)) == 1


def test_the_search_finds_spark_dbutils_and_magics() -> None:
    used = {
        ".".join(names)
        for notebook in NOTEBOOKS
        for cell in cells_of(notebook)
        if not cell.magic
        for _, names, _ in chains(cell)
    }
    assert {"dbutils.widgets", "dbutils.notebook.run", "spark.sql"} <= used
    assert {cell.magic for notebook in NOTEBOOKS for cell in cells_of(notebook)} == {"", *_MAGICS}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("dbutils.fs.ls('/')", "not there on a laptop"),
        ("dbutils.widgets.getAll()", "not there on a laptop"),
        ("dbutils.widgets.label('a')", "not there on Databricks"),
        ("dbutils.widgets.text('a')", "cannot be called so"),
        ("spark.tables()", "is not Spark's"),
        ("from sessionization_laptop.demo import demo", "one side only"),
        ("%sql\nSELECT * FROM sesions", "no table or view"),
        ("%sql\nSELECT 1; SELECT 2", "two statements"),
        ("%run ./missing", "no such notebook"),
        ("%fs ls", "is not one of"),
        ("x = 1\n%time x", "invalid syntax"),
    ],
)
def test_every_kind_of_mistake_is_reported(source: str, expected: str) -> None:
    cell = files.Cell(1, *files.split_magic(source))
    try:
        found = mistakes_of(cell, ROOT / "notebooks")
    except SyntaxError as error:
        found = [str(error)]
    assert any(expected in mistake for mistake in found), found
