"""Private names of Spark and Delta stand in one module for each, and who needs a JVM is in a list.

Over Spark Connect there is no JVM: serverless compute and standard access mode cannot run what needs one.
"""

import ast
from collections.abc import Iterator

from tests.support.sources import sources

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


def names(source: str) -> Iterator[str]:
    """The attributes that a text reads or defines, also by `getattr`, and the last names of what it imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            yield from (value.value for value in node.args if isinstance(value, ast.Constant))
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "").rpartition(".")[2], *(alias.name for alias in node.names))


def test_private_names_are_used_in_their_modules_alone() -> None:
    assert {path for path, text in sources() if PRIVATE & set(names(text))} == DOORS


def test_what_needs_a_jvm_is_in_the_list() -> None:
    needed = NEED_A_JVM | {"private_spark", "private_delta"}
    assert {path for path, text in sources() if path not in DOORS and needed & set(names(text))} == ALLOWED.keys()


def test_every_way_to_a_private_name_is_seen() -> None:
    source = 'a = spark._jvm.System\nb = getattr(spark, "_jsc", None)\nc = log_jvm\nfrom x.private_spark import d'
    assert {"_jvm", "_jsc", "private_spark"} <= set(names(source))
    assert "log_jvm" not in names(source)
