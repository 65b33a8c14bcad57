"""An archive of the classes that Spark and Delta load: a JVM starts with about a third less CPU time.

`make test` writes one (`tests/faults/archive_classes.py`); without it engines start as Java does. A JVM ignores an
archive that another Java made, or for other jars, so the file's name says which Java and jars it is for.
Source: "Class Data Sharing" in the JDK's description of the command `java`.
"""

import hashlib
from pathlib import Path

import pyspark

from sessionization_laptop.engine import ENGINE_FOLDER
from sessionization_laptop.engine.jars import jar_paths
from sessionization_laptop.engine.java import java_home

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Otherwise the JVM warns of each class that it cannot archive, and of an archive that it ignores."""


def archive_file() -> Path:
    """The file of the archive for this Java and these jars, which may be missing."""
    home, digest = java_home(), hashlib.sha256()
    for file in (home / "release", home / "bin" / "java"):
        digest.update(file.read_bytes() if file.is_file() else b"")
    for jar in (*sorted(_SPARK_JARS.glob("*.jar")), *jar_paths("spark")):
        digest.update(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}\n".encode())
    return ENGINE_FOLDER / f"classes-{digest.hexdigest()[:16]}.jsa"


def archive_options() -> str:
    """The JVM's options to use the archive; empty without one."""
    archive = archive_file()
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto {SILENT}' if archive.is_file() else ""
