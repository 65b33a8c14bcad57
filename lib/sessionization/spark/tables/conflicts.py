"""Conflicts: another transaction changed the same table first. How to recognize, report and retry them."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from tenacity import before_sleep_log, retry, retry_if_exception, stop_after_attempt, wait_random_exponential

from sessionization.errors import IncompleteWorkError
from sessionization.spark.engine.error_text import root_cause

_log = logging.getLogger(__name__)
_TRIES = 5

_CONFLICT_CONDITION = r"DELTA_(?:CONCURRENT_[A-Z_]+|METADATA_CHANGED|PROTOCOL_CHANGED)(?:\.[A-Z_]+)?"
# The engine writes the condition at the beginning of a message, sometimes after the name of the exception.
_CONFLICT_TEXT = re.compile(rf"^(?:[^\n]*(?:Exception|Error): )?\[{_CONFLICT_CONDITION}\]", re.MULTILINE)


def is_conflict(error: BaseException) -> bool:
    """Whether the error is a conflict. A condition counts only at the beginning of a line of the message."""
    if type(error).__module__.startswith("delta.exceptions"):  # which are all of conflicts
        return True
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return (
        re.fullmatch(_CONFLICT_CONDITION, condition or "") is not None or _CONFLICT_TEXT.search(str(error)) is not None
    )


@contextmanager
def explain_conflict(target: str) -> Iterator[None]:
    """Raises `IncompleteWorkError` where another transaction changed `target` while the body ran."""
    try:
        yield
    except PySparkException as error:
        if not is_conflict(error):
            raise
        msg = (
            f"somebody changed {target} meanwhile ({root_cause(str(error))}): "
            "stop the sessionize job, and run this again"
        )
        raise IncompleteWorkError(msg) from error


retry_on_conflict = retry(
    retry=retry_if_exception(is_conflict),
    stop=stop_after_attempt(_TRIES),
    wait=wait_random_exponential(multiplier=0.1, max=2),  # seconds; short, because heartbeats wait
    before_sleep=before_sleep_log(_log, logging.WARNING),
    reraise=True,
)
"""Decorates a statement that is one transaction. A conflict writes nothing, so the statement is tried again."""
