"""Somebody else has changed the same table meanwhile: which errors say so, and what is done about it."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

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
from tenacity import before_sleep_log, retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from sessionization.errors import MaintenanceError
from sessionization.spark.engine.error_text import root_cause

_log = logging.getLogger(__name__)
_TRIES = 5

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


def is_conflict(error: BaseException) -> bool:
    """Whether a transaction of somebody else was first. A word in a message does not make a conflict."""
    if isinstance(error, _CLASSES):
        return True
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return re.fullmatch(_CONDITION, condition or "") is not None or _WRITTEN.search(str(error)) is not None


@contextmanager
def explain_conflict(what: str) -> Iterator[None]:
    """Give up where somebody else has changed `what` while the body did: raises `MaintenanceError`."""
    try:
        yield
    except PySparkException as error:
        if not is_conflict(error):
            raise
        msg = (
            f"somebody changed {what} meanwhile ({root_cause(str(error))}): stop the sessionize job, and run this again"
        )
        raise MaintenanceError(msg) from error


retry_on_conflict = retry(
    retry=retry_if_exception(is_conflict),
    stop=stop_after_attempt(_TRIES),
    wait=wait_random_exponential(multiplier=0.1, max=2),  # seconds: heartbeats wait meanwhile
    before_sleep=before_sleep_log(_log, logging.WARNING),
    reraise=True,
)
"""Decorates a statement that is one transaction: where somebody else was first nothing is written, and it is tried again."""
