"""What runs on Databricks imports only what a cluster has, and uses private names of Spark and Delta in two modules.

Over Spark Connect there is no JVM: serverless compute and standard access mode cannot run what needs one.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import ROOT, imports, sources
from tools.bundle.pins import runtime_versions
from tools.bundle.target import read_target

LAPTOP = "sessionization_laptop"
MAY_ASK_FOR_LAPTOP = ("jobs/", "notebooks/")
"""What runs on both sides, and does without the package on a cluster."""
DISTRIBUTIONS = {
    "databricks": "databricks-sdk",
    "delta": "delta-spark",
    "mlflow": "mlflow-skinny",
    "runtime": "nutter",
    "yaml": "pyyaml",
}
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

L = "lib/sessionization/"
DOORS = {f"{L}private_spark.py", f"{L}private_delta.py"}
PRIVATE = {
    "_active_spark_context",
    "_ensure_initialized",
    "_gateway",
    "_jdf",
    "_jlistener",
    "_jsc",
    "_jsparkSession",
    "_jvm",
    "_streamingCheckpointManager",
}
NEED_A_JVM = {"newSession", "rdd", "sparkContext"}
"""Public attributes that answer only where there is a JVM."""

STREAM, AT_A_URI, WITHOUT_TOO = (
    "only of jobs that need dedicated access mode",
    "only where a location is a URI",
    "does without a JVM too",
)
ALLOWED = {
    f"{L}hadoop_path.py": AT_A_URI,
    f"{L}ops/rescale.py": STREAM,
    f"{L}job/metrics.py": STREAM,
    f"{L}spark/engine/error_text.py": WITHOUT_TOO,
    f"{L}spark/engine/session.py": WITHOUT_TOO,
    f"{L}spark/input/topic_admin.py": STREAM,
    f"{L}spark/output/real_time.py": STREAM,
    f"{L}spark/tables/lease_table.py": WITHOUT_TOO,
    f"{L}spark/tables/location.py": WITHOUT_TOO,
    f"{L}spark/tables/log_cleanup.py": f"{STREAM}, with tables in folders",
}
"""Who calls the doors, or what needs a JVM, and why it may. The laptop's engine starts a JVM, and is not looked at."""


def packages(source: str) -> set[str]:
    """The packages that a text imports."""
    return {name.partition(".")[0] for name in imports(source)} - {""}


def missing(source: str) -> set[str]:
    """The packages that a text imports and that a cluster does not have."""
    return {
        name
        for name in packages(source) - PRESENT
        if DISTRIBUTIONS.get(name, name.lower().replace("_", "-")) not in runtime_versions().keys() | INSTALLED
    }


def names(source: str) -> Iterator[str]:
    """The attributes that a text reads or defines, also by `getattr`, and the last names of what it imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from (value.value for value in node.args if isinstance(value, ast.Constant))
    for name in imports(source):
        yield from name.split(".")[-2:]


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
    assert {name for text in texts for name in packages(text)} <= {"sessionization", *sys.stdlib_module_names}
    ours = {name for text in texts for name in imports(text) if name.startswith("sessionization")}
    assert all(name.startswith("sessionization.core.") for name in ours)


def test_no_module_imports_a_module_of_tests() -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("*.py")}
    found = {file: [name for name in imports(text) if ".test_" in name] for file, text in texts.items()}
    assert {file: names for file, names in found.items() if names} == {}, "move what they share to tests/support"


def test_private_names_are_used_in_their_modules_alone() -> None:
    assert {path for path, text in sources() if PRIVATE & set(names(text))} == DOORS


def test_what_needs_a_jvm_is_in_the_list() -> None:
    needed = NEED_A_JVM | {"private_spark", "private_delta"}
    assert {path for path, text in sources() if path not in DOORS and needed & set(names(text))} == ALLOWED.keys()


def test_every_way_to_a_private_name_is_seen() -> None:
    source = 'a = spark._jvm.System\nb = getattr(spark, "_jsc", None)\nc = log_jvm\nfrom x.private_spark import d'
    assert {"_jvm", "_jsc", "private_spark"} <= set(names(source))
    assert "log_jvm" not in names(source)
