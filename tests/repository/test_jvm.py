"""Every place that needs a JVM beside Spark's public classes stands in one list: over Spark Connect there is none."""

import ast
from collections import defaultdict

from tests.support.sources import sources

NAMES = {
    "_active_spark_context",
    "_ensure_initialized",
    "_gateway",
    "_jdf",
    "_jsc",
    "_jsparkSession",
    "_jvm",
    "_streamingCheckpointManager",
    "newSession",
    "rdd",
    "sparkContext",
}
"""Attributes that exist, or answer, only where there is a JVM."""
L = "lib/sessionization/"
STREAM, AT_A_URI, WITHOUT_TOO = (
    "only of jobs that need dedicated access mode",
    "only where a location is a URI",
    "does without a JVM too",
)
ALLOWED = {
    f"{L}hadoop_path.py": ({"_active_spark_context", "_gateway", "_jsc", "_jvm"}, AT_A_URI),
    f"{L}session_conf.py": ({"newSession"}, WITHOUT_TOO),
    f"{L}backfill/stream_clock.py": ({"sparkContext"}, STREAM),
    f"{L}ops/rescale.py": ({"_streamingCheckpointManager"}, STREAM),
    f"{L}spark/engine/session.py": (
        {"_active_spark_context", "_ensure_initialized", "_jsc", "_jvm", "sparkContext"},
        f"{WITHOUT_TOO}; _ensure_initialized and _jsc not on Databricks",
    ),
    f"{L}spark/engine/watchdog.py": ({"_gateway", "_jvm"}, WITHOUT_TOO),
    f"{L}spark/input/topic_admin.py": ({"_jvm"}, STREAM),
    f"{L}spark/output/engine_listener.py": ({"_jvm"}, STREAM),
    f"{L}spark/output/topic_rights.py": ({"_jvm"}, STREAM),
    f"{L}spark/tables/lease_table.py": ({"_jvm"}, WITHOUT_TOO),
    f"{L}spark/tables/location.py": ({"_jvm"}, WITHOUT_TOO),
    f"{L}spark/tables/log_cleanup.py": ({"_jsparkSession", "_jvm"}, f"{STREAM}, with tables in folders"),
}
"""By file what it uses, and why that may be. `sessionization_laptop` starts a JVM, and is never there on Databricks."""


def used(source: str) -> set[str]:
    """The attributes of `NAMES` that a text reads, also by `getattr`."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            found |= {value.value for value in node.args if isinstance(value, ast.Constant)}
    return found & NAMES


def test_what_needs_a_jvm_is_in_the_list() -> None:
    by_file: dict[str, set[str]] = defaultdict(set)
    for path, text in sources():
        by_file[path] |= used(text)
    assert {path: names for path, names in by_file.items() if names} == {
        path: names for path, (names, _) in ALLOWED.items()
    }


def test_every_way_to_a_jvm_is_seen() -> None:
    assert used('a = spark._jvm.System\nb = getattr(spark, "_jsc", None)\nc = log_jvm') == {"_jvm", "_jsc"}
