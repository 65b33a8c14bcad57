"""How tests start the engine's JVM: for a short life, with its classes from an archive where one has been made."""

import sys
from pathlib import Path

from sessionization.local.session import SHORT_LIVED_JVM

CLASSES = Path(__file__).parents[1] / ".venv" / "classes.jsa"
"""Made by `python -m tests.faults.archive_classes`. The JVM ignores one that another Java or other jars have made."""

_FROM_ARCHIVE = f'"-XX:SharedArchiveFile={CLASSES}" -Xshare:auto -Xlog:disable'
# Hadoop starts six processes (readlink, chmod) for every file of a table's log: this way each takes half the time.
_QUICK_PROCESSES = "-Djdk.lang.Process.launchMechanism=VFORK" if sys.platform == "linux" else ""
JVM_OPTIONS = " ".join(filter(None, (SHORT_LIVED_JVM, _QUICK_PROCESSES, _FROM_ARCHIVE if CLASSES.exists() else "")))
"""`JAVA_TOOL_OPTIONS` of an engine that a test starts."""
