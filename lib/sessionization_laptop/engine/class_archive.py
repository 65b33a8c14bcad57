"""An archive of the classes that Spark and Delta load: a JVM starts with about a third less CPU time.

A JVM ignores an archive that another Java made, or for other jars, so the file's name says which Java and jars it is
for. A new archive replaces all others.
Source: "Class Data Sharing" in the JDK's description of the command `java`.
"""

import contextlib
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkContext

from sessionization.say import Say
from sessionization_laptop.engine import ENGINE_FOLDER
from sessionization_laptop.engine.jars import jar_paths
from sessionization_laptop.engine.java import java_home

_SPARK_JARS = Path(pyspark.__file__).parent / "jars"
_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"
_WRITE_OPTION = "-XX:ArchiveClassesAtExit="
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Otherwise the JVM warns of each class that it cannot archive, and of an archive that it ignores."""
_WRITTEN_WITHIN_S = 120


def archive_file() -> Path:
    """The file of the archive for this Java and these jars, which may be missing."""
    home, digest = java_home(), hashlib.sha256()
    for file in (home / "release", home / "bin" / "java"):
        digest.update(file.read_bytes() if file.is_file() else b"")
    for jar in (*sorted(_SPARK_JARS.glob("*.jar")), *jar_paths("spark")):
        digest.update(f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}\n".encode())
    return ENGINE_FOLDER / f"classes-{digest.hexdigest()[:16]}.jsa"


def archive_options() -> str:
    """The JVM's options to use the archive; empty without one, and where the JVM is to write one."""
    archive = archive_file()
    if _WRITE_OPTION in os.environ.get(_SUBMIT_OPTIONS, "") or not archive.is_file():
        return ""
    return f'"-XX:SharedArchiveFile={archive}" -Xshare:auto {_SILENT}'


def options_to_write(archive: Path) -> str:
    """The options of a JVM that writes an archive as it ends."""
    return f'"{_WRITE_OPTION}{archive}" {_SILENT}'


@contextlib.contextmanager
def new_archive() -> Iterator[Path]:
    """Yield a file for a JVM to write an archive to. If the body leaves the file, it replaces all earlier archives.

    A full disk leaves no archive, and is no error.
    """
    with tempfile.TemporaryDirectory(dir=ENGINE_FOLDER) as folder:
        file = Path(folder) / archive_file().name
        yield file
        with contextlib.suppress(OSError):
            if file.is_file():
                _publish(file)


def _publish(file: Path) -> None:
    with file.open("rb") as written:
        os.fsync(written.fileno())
    archive = file.replace(archive_file())
    for other in set(ENGINE_FOLDER.glob("classes*.jsa")) - {archive}:
        other.unlink(missing_ok=True)


@contextlib.contextmanager
def archive_classes(say: Say) -> Iterator[None]:
    """If there is no archive, let the engine that starts in the body write one: the engine ends after the body.

    If that fails, or this Java cannot write one, there is no archive.
    """
    if archive_file().is_file() or not os.access(ENGINE_FOLDER, os.W_OK):
        yield
        return
    with new_archive() as file, _added_to_environment(_SUBMIT_OPTIONS, options_to_write(file)):
        yield
        say("archiving the classes of Spark, so that the next demo starts faster")
        if not _end_engine():
            file.unlink(missing_ok=True)


@contextlib.contextmanager
def _added_to_environment(name: str, added: str) -> Iterator[None]:
    """Add words to a variable of the environment while the body runs."""
    before = os.environ.get(name)
    os.environ[name] = f"{before or ''} {added}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _end_engine() -> bool:
    """End the JVM of this process, as PySpark does when Python exits, and wait for that. True if it ended well."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark offers no other way
    if gateway is None or gateway.proc is None:  # not started, or another program's
        return False
    try:
        gateway.shutdown()
        gateway.proc.stdin.close()
        return bool(gateway.proc.wait(_WRITTEN_WITHIN_S) == 0)
    except (OSError, subprocess.TimeoutExpired):
        return False
