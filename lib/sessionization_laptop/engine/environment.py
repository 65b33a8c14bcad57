"""The environment of a local engine: the engine is ours, and not set up by the person who starts it."""

import os
import pwd
import shlex
import sys
from pathlib import Path

import pyspark

from sessionization.errors import SetupError
from sessionization_laptop.engine.java import java_home

_OF_SPARK = ("SPARK_", "PYSPARK_")
_KEPT = {"PYSPARK_SUBMIT_ARGS", "SPARK_LOCAL_DIRS", "SPARK_SUBMIT_OPTS"}
_LONGEST_SOCKET_FOLDER = 64
"""A socket's path has at most 107 bytes, and Spark's names for them have 42 and a slash."""


def own_environment() -> None:
    """Leave out of this process's environment what would make another engine of the one to be started.

    That is another Spark, its folder of settings or a server of it. Options of Java remain, such as a trust store, but
    the engine's own win: `_JAVA_OPTIONS` wins over a command line, `JAVA_TOOL_OPTIONS` does not.

    Raises `SetupError` for arguments of Spark that cannot be read.
    """
    for name in [name for name in os.environ if name.startswith(_OF_SPARK) and name not in _KEPT]:
        del os.environ[name]
    try:
        words = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    except ValueError as error:
        msg = f"PYSPARK_SUBMIT_ARGS cannot be read ({error}): unset it, or close its quotes"
        raise SetupError(msg) from error
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
    if (user := nameless_user()) is not None:
        os.environ.setdefault("USER", user)  # for getpass


def nameless_user() -> str | None:
    """What to call the user of this process, if the machine knows no name; else None. Java and Hadoop need a name."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return os.environ.get("HADOOP_USER_NAME") or str(os.getuid())
    return None


def has_room_for_sockets(folder: str) -> bool:
    return len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER
