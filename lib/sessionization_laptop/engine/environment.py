"""The environment of a local engine: the engine is ours, and not set up by the person who starts it."""

import os
import shlex
import sys
from pathlib import Path

import pyspark

from sessionization_laptop.engine.java import java_home

_OF_SPARK = ("SPARK_", "PYSPARK_")
_KEPT = {"PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS"}


def own_environment() -> None:
    """Leave out of this process's environment what would make another engine of the one to be started.

    That is another Spark, its folder of settings or a server of it. Options of Java remain, such as a trust store, but
    the engine's own win: `_JAVA_OPTIONS` wins over a command line, `JAVA_TOOL_OPTIONS` does not.
    """
    for name in [name for name in os.environ if name.startswith(_OF_SPARK) and name not in _KEPT]:
        del os.environ[name]
    words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    if "pyspark-shell" not in words:
        words.append("pyspark-shell")  # PySpark's shell is what they start
    java_options = [os.environ.pop("_JAVA_OPTIONS", ""), os.environ.get("JAVA_TOOL_OPTIONS", "")]
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",  # a container may not know its own name
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": shlex.join(words),
        "JAVA_HOME": str(java_home()),
        "JAVA_TOOL_OPTIONS": " ".join(filter(None, java_options)),
    }
