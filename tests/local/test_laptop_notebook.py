"""`dbutils` and notebook files on a laptop act as in a workspace, errors included."""

import json
from pathlib import Path

import pytest

from sessionization.errors import ConfigurationError
from sessionization_laptop.laptop_notebook import LaptopDbutils, LaptopWidgets, run_notebook, set_up
from sessionization_laptop.notebook_cells import Cell, find_notebook, read_cells, run_cells
from sessionization_laptop.notebook_folders import (
    WIDGETS_FILE,
    notebook_data_folder,
    notebook_tables_folder,
    write_widget_values,
)


def write_source_notebook(folder: Path, name: str, *parts: str) -> Path:
    file = folder / f"{name}.py"
    file.write_text("# Databricks notebook source\n" + "\n\n# COMMAND ----------\n\n".join(parts) + "\n")
    return file


def write_ipynb(folder: Path, name: str, *sources: str) -> Path:
    file = folder / f"{name}.ipynb"
    code = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in sources]
    file.write_text(json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Title"]}, *code]}))
    return file


def test_a_widget_has_its_first_default_and_a_given_value_wins() -> None:
    widgets = LaptopWidgets({"schema": "evening"})
    widgets.text("schema", "other")
    widgets.text("run-for", "1m", "how long")
    widgets.text("run-for", "2m")
    assert (widgets.get("schema"), widgets.get("run-for")) == ("evening", "1m")


def test_a_widget_that_was_not_created_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="widget schema is not defined"):
        LaptopWidgets({"schema": "given, but never made"}).get("schema")


def test_a_default_must_be_a_choice() -> None:
    with pytest.raises(ConfigurationError, match="'mqtt' is none of its choices: files, kafka"):
        LaptopWidgets({}).dropdown("source", "mqtt", ["files", "kafka"], "source")


def test_cells_are_read_from_the_source_format(tmp_path: Path) -> None:
    file = write_source_notebook(
        tmp_path, "n", "# MAGIC %md\n# MAGIC # Title", "x = 1", "# MAGIC %sql\n# MAGIC SELECT 1\n# MAGIC FROM a", ""
    )
    assert list(read_cells(file)) == [Cell(2, "", "x = 1"), Cell(3, "%sql", "SELECT 1\nFROM a")]


def test_cells_are_read_from_ipynb(tmp_path: Path) -> None:
    file = write_ipynb(tmp_path, "n", "x = 1\ny = 2", "%sql\nSELECT 1", "%run ./other")
    assert list(read_cells(file)) == [
        Cell(2, "", "x = 1\ny = 2"),
        Cell(3, "%sql", "SELECT 1"),
        Cell(4, "%run", "./other"),
    ]


def test_a_plain_file_is_no_notebook(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    assert find_notebook("./plain", tmp_path) is None
    with pytest.raises(ConfigurationError, match="is no notebook"):
        list(read_cells(tmp_path / "plain.py"))


def test_run_shares_names_and_finds_notebooks_relative_to_its_own(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    write_source_notebook(tmp_path / "shared", "names", "# MAGIC %run ./more", "greeting = f'{word}, {name}'")
    write_ipynb(tmp_path / "shared", "more", "name = 'player'")
    file = write_source_notebook(
        tmp_path, "main", "word = 'hello'", "# MAGIC %run ./shared/names", "dbutils.notebook.exit(greeting)"
    )
    assert run_notebook(file, None, {}) == "hello, player"


def test_a_notebook_gets_its_arguments_and_a_namespace_of_its_own(tmp_path: Path) -> None:
    write_source_notebook(
        tmp_path,
        "child",
        "dbutils.widgets.text('who', 'nobody', 'who')",
        "dbutils.notebook.exit(dbutils.widgets.get('who'))",
    )
    parent = (
        "found = dbutils.notebook.run('./child', 60, {'who': 'me'})\n"
        "assert 'word' not in globals()\n"
        "dbutils.notebook.exit(found)"
    )
    assert run_notebook(write_source_notebook(tmp_path, "parent", parent), None, {}) == "me"


def test_set_up_does_nothing_in_a_notebook_that_is_run_and_is_refused_elsewhere(tmp_path: Path) -> None:
    set_up_again = (
        "from sessionization_laptop.laptop_notebook import set_up\nset_up(players=True)\ndbutils.notebook.exit('ran')"
    )
    assert run_notebook(write_source_notebook(tmp_path, "n", set_up_again), None, {}) == "ran"
    pytest.importorskip("IPython", reason="IPython is not installed: make notebooks installs it")
    with pytest.raises(ConfigurationError, match="is for notebooks"):
        set_up()


def test_no_code_after_exit_is_run(tmp_path: Path) -> None:
    file = write_source_notebook(
        tmp_path, "n", "try:\n    dbutils.notebook.exit('early')\nexcept Exception:\n    pass", "raise ValueError"
    )
    assert run_notebook(file, None, {}) == "early"


def test_an_error_names_notebook_and_cell(tmp_path: Path) -> None:
    file = write_source_notebook(tmp_path, "broken", "x = 1", "y = x / 0")
    with pytest.raises(ZeroDivisionError) as raised:
        run_notebook(file, None, {})
    assert "broken.py [2]" in {str(entry.path) for entry in raised.traceback}


@pytest.mark.parametrize(
    ("cell", "message"), [("# MAGIC %fs ls", "%fs is not known here"), ("# MAGIC %run ./gone", "no such notebook")]
)
def test_an_unknown_magic_or_a_missing_notebook_is_refused(tmp_path: Path, cell: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run_notebook(write_source_notebook(tmp_path, "n", cell), None, {})


def test_run_of_a_missing_notebook_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no notebook ./gone"):
        LaptopDbutils(None, tmp_path, {}).notebook.run("./gone", 60)


def test_a_magic_gets_the_folder_of_its_notebook(tmp_path: Path) -> None:
    calls: list[tuple[str, Path]] = []
    run_cells(
        write_ipynb(tmp_path, "n", "%sql SELECT 1"), {}, {"%sql": lambda text, folder: calls.append((text, folder))}
    )
    assert calls == [("SELECT 1", tmp_path)]


def test_the_demo_folder_is_in_the_project_whatever_folder_a_kernel_starts_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "databricks.yml").touch()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.delenv("SESSIONIZATION_NOTEBOOKS", raising=False)
    for folder in (tmp_path, tmp_path / "notebooks"):
        monkeypatch.chdir(folder)
        assert notebook_tables_folder() == tmp_path / ".notebooks"
    monkeypatch.setenv("SESSIONIZATION_NOTEBOOKS", str(tmp_path / "elsewhere"))
    assert notebook_tables_folder() == tmp_path / "elsewhere"


def test_the_notebooks_open_the_tables_of_the_demo_until_they_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "databricks.yml").touch()
    monkeypatch.delenv("SESSIONIZATION_NOTEBOOKS", raising=False)
    monkeypatch.chdir(tmp_path)
    demo, own = tmp_path / ".demo", tmp_path / ".notebooks"
    demo.mkdir()
    assert notebook_tables_folder() == own, "the demo has no tables yet"
    write_widget_values(demo, heartbeat="10s")
    assert (notebook_tables_folder(), notebook_data_folder()) == (demo, own)
    assert json.loads((demo / WIDGETS_FILE).read_text(encoding="utf-8"))["warehouse"] == str(demo / "warehouse")
    own.mkdir()
    write_widget_values(own, heartbeat="5s")
    assert notebook_tables_folder() == own
