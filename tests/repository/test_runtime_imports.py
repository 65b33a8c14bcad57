"""What runs on Databricks imports only what the runtime has, or what the bundle installs there."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import sources
from tools.bundle.job_options import JOBS
from tools.bundle.pins import installed_with_the_wheel, runtime_versions

DISTRIBUTIONS = {"delta": "delta-spark", "mlflow": "mlflow-skinny", "runtime": "nutter"}
"""By name of an import its distribution, where it is not the same name with dashes."""
INSTALLED = {
    *installed_with_the_wheel(frozenset(extra for job in JOBS.values() for extra in job.extras)),
    *(name for job in JOBS.values() for name in job.packages),
}
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
    assert {path: names for path, text in texts.items() if (names := missing(text))} == {}


def test_an_import_that_a_cluster_lacks_is_found() -> None:
    text = "import requests.sessions, orjson\nfrom . import charts\ndef f():\n    from truststore import SSLContext"
    assert missing(text) == {"truststore"}
