"""Which errors mean that somebody else has changed the same table meanwhile, by their class or their condition."""

import re

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.errors import PySparkException

_CLASSES = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
_CONDITION = r"DELTA_(?:CONCURRENT_[A-Z_]+|METADATA_CHANGED|PROTOCOL_CHANGED)(?:\.[A-Z_]+)?"
# How the engine writes a condition: at the beginning of a message, which may follow the name of its exception.
_WRITTEN = re.compile(rf"^(?:[^\n]*(?:Exception|Error): )?\[{_CONDITION}\]", re.MULTILINE)


def is_conflict(error: Exception) -> bool:
    """Whether a transaction of somebody else was first. A word in a message does not make a conflict."""
    if isinstance(error, _CLASSES):
        return True
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return re.fullmatch(_CONDITION, condition or "") is not None or _WRITTEN.search(str(error)) is not None
