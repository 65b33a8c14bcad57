"""The base of listeners for the engine's reports on micro-batches."""

import json
from functools import cached_property
from typing import Any

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

_OFFSETS = ("startOffset", "endOffset", "latestOffset")
_RATES = dict.fromkeys(("inputRowsPerSecond", "processedRowsPerSecond"), 0.0)


class EngineListener(StreamingQueryListener):
    """A listener that gets each report as one text of JSON.

    PySpark's own way takes a hundred calls to the JVM for a report, and five exceptions, one at the end of each map:
    190 ms of a slow core, in place of 2 (docs/performance.md, "Calls from Python to the JVM").
    """

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: there is no micro-batch yet."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: the job itself reports it."""

    @cached_property
    def _jlistener(self) -> Any:
        """What PySpark registers in the JVM. PySpark offers no public way to get the text."""
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - as PySpark's own property
        return jvm.PythonStreamingQueryListenerWrapper(_TextReceiver(self))


class _TextReceiver(JStreamingQueryListener):
    def onQueryProgress(self, jevent: Any) -> None:  # noqa: N802 - Spark's name
        self.pylistener.onQueryProgress(QueryProgressEvent(parse_report(jevent.progress().json())))


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
