"""An archive of the classes that Spark and Delta load: a JVM starts with about a third less CPU time.

The JVM ignores an archive of another Java or of other jars. Source: "Class Data Sharing" in the JDK's description of
the command `java`.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import SparkContext

ARCHIVE = Path(sys.prefix) / "share" / "sessionization" / "classes.jsa"
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
"""Otherwise the JVM warns of each class that it cannot archive, and of an archive that it ignores."""
_WRITTEN_WITHIN_S = 120


def archive_options() -> str:
    """The JVM's options to use the archive; empty without one."""
    return f'"-XX:SharedArchiveFile={ARCHIVE}" -Xshare:auto {_SILENT}' if ARCHIVE.is_file() else ""


def options_to_write(archive: Path) -> str:
    """The options of a JVM that writes an archive as it ends."""
    return f'"-XX:ArchiveClassesAtExit={archive}" {_SILENT}'


@contextlib.contextmanager
def archive_classes() -> Iterator[None]:
    """If there is no archive, let the engine that starts in the body write one: the engine ends after the body.

    If that fails, or this Java cannot write one, there is no archive.
    """
    if ARCHIVE.is_file() or not os.access(ARCHIVE.parent, os.W_OK):
        yield
        return
    with tempfile.TemporaryDirectory(dir=ARCHIVE.parent) as folder:
        new = Path(folder) / ARCHIVE.name
        os.environ["SPARK_SUBMIT_OPTS"] = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {options_to_write(new)}"
        yield
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            _end_engine()
            new.replace(ARCHIVE)


def _end_engine() -> None:
    """End the JVM of this process, as PySpark does when Python exits, and wait for that."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark offers no other way
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(_WRITTEN_WITHIN_S)
