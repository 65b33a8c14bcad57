"""JVM options of the engines that tests start: short-lived, with classes from an archive if there is one."""

from pathlib import Path

from sessionization.local_engine.local_session import SHORT_LIVED_JVM_OPTIONS

CLASSES = Path(__file__).parents[1] / ".venv" / "classes.jsa"
"""Written by `python -m tests.faults.archive_classes`. The JVM ignores an archive of another Java or of other jars."""

_FROM_ARCHIVE = f'"-XX:SharedArchiveFile={CLASSES}" -Xshare:auto -Xlog:disable'
JVM_OPTIONS = f"{SHORT_LIVED_JVM_OPTIONS} {_FROM_ARCHIVE}" if CLASSES.exists() else SHORT_LIVED_JVM_OPTIONS
"""`JAVA_TOOL_OPTIONS` of an engine that a test starts."""
