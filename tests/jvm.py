"""How tests start the engine's JVM: for a short life, with its classes from an archive where one has been made."""

from pathlib import Path

from sessionization.local_engine.local_session import SHORT_LIVED_JVM

CLASSES = Path(__file__).parents[1] / ".venv" / "classes.jsa"
"""Made by `python -m tests.faults.archive_classes`. The JVM ignores one that another Java or other jars have made."""

_FROM_ARCHIVE = f'"-XX:SharedArchiveFile={CLASSES}" -Xshare:auto -Xlog:disable'
JVM_OPTIONS = f"{SHORT_LIVED_JVM} {_FROM_ARCHIVE}" if CLASSES.exists() else SHORT_LIVED_JVM
"""`JAVA_TOOL_OPTIONS` of an engine that a test starts."""
