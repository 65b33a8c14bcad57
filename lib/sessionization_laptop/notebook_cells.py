"""Read notebook files, and run their cells one after the other in this process."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sessionization.errors import ConfigurationError

SOURCE_HEADER = "# Databricks notebook source"
_SEPARATOR = re.compile(r"^# COMMAND -+$", re.MULTILINE)
_MAGIC = re.compile(r"^# MAGIC ?", re.MULTILINE)
_WITHOUT_EFFECT = {"%md", "%pip", "%sh"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its magic (`%sql`, `%run`, or none), and the text after it."""

    number: int
    magic: str
    source: str


def read_cells(file: Path) -> Iterator[Cell]:
    """Read the code cells of an `.ipynb` file or of Databricks' source format, numbered among all cells from 1.

    Raises `ConfigurationError` for a file that is neither.
    """
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        sources = (
            (number, "".join(cell["source"]))
            for number, cell in enumerate(json.loads(text)["cells"], 1)
            if cell["cell_type"] == "code"
        )
    elif text.startswith(SOURCE_HEADER):
        parts = _SEPARATOR.split(text.removeprefix(SOURCE_HEADER))
        sources = ((number, _MAGIC.sub("", part).strip("\n")) for number, part in enumerate(parts, 1))
    else:
        msg = f"{file} is no notebook: it must be an .ipynb file, or begin with the line {SOURCE_HEADER!r}"
        raise ConfigurationError(msg)
    for number, source in sources:
        magic, rest = split_magic(source)
        if source.strip() and magic not in _WITHOUT_EFFECT:
            yield Cell(number, magic, rest)


def split_magic(source: str) -> tuple[str, str]:
    r"""Split a cell into its leading magic, as Databricks reads it, and the rest.

    >>> split_magic("%sql\nSELECT 1"), split_magic("x = 1")
    (('%sql', 'SELECT 1'), ('', 'x = 1'))
    """
    match = re.match(r"\s*(%[a-z]+)\b\s*", source)
    return (match[1], source[match.end() :]) if match else ("", source)


def find_notebook(name: str, folder: Path) -> Path | None:
    """Find the file of a notebook that is named without an ending, as in a workspace; None if there is none."""
    name = name.strip().strip("\"'")
    for ending in ("", ".ipynb", ".py"):
        file = folder / f"{name}{ending}"
        if file.is_file() and (file.suffix == ".ipynb" or file.read_text(encoding="utf-8").startswith(SOURCE_HEADER)):
            return file.resolve()
    return None


def run_cells(file: Path, namespace: dict[str, Any], magics: Mapping[str, Callable[[str, Path], None]]) -> None:
    """Run a notebook in a namespace; each of `magics` is called with the text after it and the notebook's folder.

    Raises what a cell raises, with the notebook's name and the cell's number in the traceback.
    """
    for cell in read_cells(file):
        if not cell.magic:
            code = compile(cell.source, f"{file.name} [{cell.number}]", "exec")
            exec(code, namespace)  # noqa: S102 - a notebook is code
        elif cell.magic in magics:
            magics[cell.magic](cell.source, file.parent)
        else:
            msg = f"{file.name}, cell {cell.number}: {cell.magic} is not known here: {', '.join(magics)} are"
            raise ConfigurationError(msg)
