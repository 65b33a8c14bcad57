"""The base of listeners for the engine's reports on micro-batches."""

import json
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from sessionization.private_spark import TextListener

_OFFSETS = ("startOffset", "endOffset", "latestOffset")
_RATES = dict.fromkeys(("inputRowsPerSecond", "processedRowsPerSecond"), 0.0)


class EngineListener(TextListener):
    """A listener for what the engine reports after each micro-batch."""

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is no micro-batch yet."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the job itself reports it."""

    def on_report(self, text: str) -> None:
        self.onQueryProgress(QueryProgressEvent(parse_report(text)))


def parse_report(text: str) -> StreamingQueryProgress:
    """Parse a report, with offsets as JSON. A rate that the engine omits, after its clock was set back, is 0."""
    report = json.loads(text)
    sources = [
        _RATES | source | {name: _as_text(source.get(name)) for name in _OFFSETS} for source in report["sources"]
    ]
    return StreamingQueryProgress.fromJson(_RATES | report | {"sources": sources})


def _as_text(offset: Any) -> str:
    """An offset as JSON; Databricks Runtime 18.0 would write it in Python's way."""
    return offset if isinstance(offset, str) else json.dumps(offset)
