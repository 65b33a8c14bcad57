"""Read notebook files, and run their cells one after the other in this process."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE_HEADER = "# Databricks notebook source"
_SEPARATOR = re.compile(r"^# COMMAND -+$", re.MULTILINE)
_MAGIC = re.compile(r"^# MAGIC ?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its magic (`%sql`, `%run`, or none), and the text after it."""

    number: int
    magic: str
    source: str


def read_cells(file: Path) -> Iterator[Cell]:
    """Read the code cells of an `.ipynb` file or of Databricks' source format, numbered among all cells from 1."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) if cell["cell_type"] == "code" else "" for cell in cells]
    else:
        sources = [_MAGIC.sub("", part).strip("\n") for part in _SEPARATOR.split(text.removeprefix(SOURCE_HEADER))]
    for number, source in enumerate(sources, 1):
        magic, rest = split_magic(source)
        if source.strip() and magic != "%md":
            yield Cell(number, magic, rest)


def split_magic(source: str) -> tuple[str, str]:
    """Split a cell into its leading magic, as Databricks reads it, and the rest."""
    match = re.match(r"\s*(%[a-z]+)\b\s*", source)
    return (match[1], source[match.end() :]) if match else ("", source)


def find_notebook(name: str, folder: Path) -> Path | None:
    """Find the file of a notebook that is named without an ending, as in a workspace; None if there is none."""
    files = (folder / f"{name.strip()}{ending}" for ending in (".ipynb", ".py"))
    return next((file.resolve() for file in files if file.is_file()), None)


def run_cells(file: Path, namespace: dict[str, Any], magics: Mapping[str, Callable[[str, Path], None]]) -> None:
    """Run a notebook in a namespace; each of `magics` is called with the text after it and the notebook's folder."""
    for cell in read_cells(file):
        if cell.magic:
            magics[cell.magic](cell.source, file.parent)
        else:
            exec(compile(cell.source, f"{file.name} [{cell.number}]", "exec"), namespace)
