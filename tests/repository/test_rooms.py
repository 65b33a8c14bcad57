"""The packages in `lib` form layers: an import points down, and never in a circle."""

from graphlib import TopologicalSorter
from pathlib import Path

from tests.support.sources import ROOT, imports

PACKAGE = "sessionization"
"""What a cluster installs; the packages beside it import it, and it imports none of them."""
BESIDE = ("sessionization_laptop", "sessionization_simulator")
LAYERS = (
    ("sessionization_laptop",),
    ("sessionization_simulator",),
    ("notebook",),
    ("ops", "backfill"),
    ("players", "serving"),
    ("sample",),
    ("job",),
    ("ml",),
    ("spark.pipeline",),
    ("spark.warm_start",),
    ("spark.output",),
    ("spark.replay",),
    ("spark.job_context",),
    ("spark.operator",),
    ("spark.tables",),
    ("spark.input",),
    ("spark.checkpoint",),
    ("spark.engine",),
    ("settings",),
    ("avro", "command_line", "core", "event_map"),
    ("",),
)
"""Rooms from top to bottom, below `sessionization.`; "" is the modules that lie directly there. A package of `BESIDE`
is one room.

docs/architecture.md draws them. Rooms of one layer do not import each other.
"""
_RANK = {room: -number for number, layer in enumerate(LAYERS) for room in layer}


def ours(source: str) -> list[str]:
    """What a module imports of the library, as dotted names that may end with a name of a module."""
    return [name for name in imports(source) if name.partition(".")[0] in {PACKAGE, *BESIDE}]


def module_of(name: str, modules: set[str]) -> str:
    """The module that a dotted name is, or is a name of."""
    return name if name in modules else name.rpartition(".")[0]


def room_of(module: str) -> str:
    """The room of a module, "" for one that lies directly in the package."""
    package, *parts = module.split(".")
    if package in BESIDE:
        return package
    if parts[:1] == ["spark"] and len(parts) > 1:
        return ".".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def graph(library: Path) -> dict[str, set[str]]:
    """By module the modules that it imports."""
    files = {
        ".".join(file.relative_to(library).with_suffix("").parts).removesuffix(".__init__"): file
        for package in (PACKAGE, *BESIDE)
        for file in (library / package).rglob("*.py")
    }
    return {
        module: {module_of(name, set(files)) for name in ours(file.read_text(encoding="utf-8"))} - {module}
        for module, file in files.items()
    }


def pointing_up(imported: dict[str, set[str]]) -> list[str]:
    """Imports into a room of the same layer or of a higher one."""
    return sorted(
        f"{module} -> {other}"
        for module, others in imported.items()
        for other in others
        if (here := room_of(module)) != (there := room_of(other)) and _RANK[there] >= _RANK[here]
    )


def test_every_import_points_down() -> None:
    assert pointing_up(graph(ROOT / "lib")) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(graph(ROOT / "lib")).prepare()  # raises an error that names a circle


def test_modules_of_one_name_are_of_one_meaning() -> None:
    """A module's name alone says which one is meant; tests and `__init__` are left out."""
    names = [module.rpartition(".")[2] for module in graph(ROOT / "lib")]
    rooms = {room.rpartition(".")[2] for layer in LAYERS for room in layer}
    assert sorted(name for name in set(names) if names.count(name) > 1 and name not in rooms) == []


def test_imports_that_point_up_are_found() -> None:
    assert ours("def f():\n    from sessionization.job.b import run") == ["sessionization.job.b.run"]
    up = {"sessionization.spark.input.a": {"sessionization.job.b", "sessionization_laptop.c", "sessionization.core.d"}}
    assert [edge.partition(" -> ")[2] for edge in pointing_up(up)] == [
        "sessionization.job.b",
        "sessionization_laptop.c",
    ]
