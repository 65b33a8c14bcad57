"""What runs on Databricks imports only what the runtime has, or what the bundle installs there."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import sources
from tools.bundle.pins import runtime_versions
from tools.bundle.target import read_target

LAPTOP = "sessionization_laptop"
MAY_ASK_FOR_LAPTOP = ("jobs/", "notebooks/")
"""What runs on both sides, and does without the package on a cluster."""
DISTRIBUTIONS = {"delta": "delta-spark", "mlflow": "mlflow-skinny", "runtime": "nutter", "yaml": "pyyaml"}
"""By name of an import its distribution, where it is not the same name with dashes."""
INSTALLED = {
    library["pypi"]["package"].partition("==")[0]
    for job in read_target("dev")["resources"]["jobs"].values()
    for task in job["tasks"]
    for library in task["libraries"]
    if "pypi" in library
}
"""What the tasks of the bundle install."""
PRESENT = {"sessionization", "sessionization_simulator", "tests", *sys.stdlib_module_names}


def imported(source: str) -> Iterator[str]:
    """The packages that a text imports, also in functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def missing(source: str) -> set[str]:
    """The packages that a text imports and that a cluster does not have."""
    found = set(imported(source)) - PRESENT
    return {
        name
        for name in found
        if DISTRIBUTIONS.get(name, name.lower().replace("_", "-")) not in runtime_versions().keys() | INSTALLED
    }


def test_every_import_is_of_a_package_that_a_cluster_has() -> None:
    texts = dict(sources())
    assert {Path(path).parts[0] for path in texts} == {"lib", "jobs", "notebooks", "tests"}
    found = {
        path: missing(text) - ({LAPTOP} if path.startswith(MAY_ASK_FOR_LAPTOP) else set())
        for path, text in texts.items()
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_an_import_that_a_cluster_lacks_is_found() -> None:
    text = "import requests.sessions, orjson\nfrom . import charts\ndef f():\n    from truststore import SSLContext"
    assert missing(text) == {"truststore"}


def test_the_core_imports_the_standard_library_and_itself_alone() -> None:
    texts = [text for path, text in sources() if path.startswith("lib/sessionization/core/")]
    assert {name for text in texts for name in imported(text)} <= {"sessionization", *sys.stdlib_module_names}
    ours = {node.module for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)}
    assert all(module.startswith("sessionization.core.") for module in ours if module.startswith("sessionization"))
