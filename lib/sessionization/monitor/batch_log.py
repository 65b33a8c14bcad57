"""Write one line of JSON per micro-batch: to a file next to the engine's log, or on Databricks to the driver's logs."""

import json
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import NoReturn

from sessionization.monitor.batch_record import Record
from sessionization.spark.output.progress import BatchDetail

MOST_BYTES, OLDER_FILES = 10_000_000, 3


class LineLog:
    """Writes lines. Raises `OSError` where one cannot be written, and still tries to write the next one."""

    def __init__(self, file: Path | None) -> None:
        """`file` is rolled at `MOST_BYTES`. Without it the lines go to the process's stderr."""
        self._handler: logging.Handler = (
            _StderrHandler(sys.__stderr__)
            if file is None
            else _FileHandler(file, maxBytes=MOST_BYTES, backupCount=OLDER_FILES, encoding="utf-8", delay=True)
        )

    def __call__(self, line: str) -> None:
        self._handler.handle(logging.makeLogRecord({"msg": line}))


class BatchLog:
    """Writes records of micro-batches, as `LineLog` does."""

    def __init__(self, file: Path | None) -> None:
        self._write = LineLog(file)

    def __call__(self, record: Record, _detail: BatchDetail) -> None:
        self._write(json.dumps(record, separators=(",", ":")))


class _RaisingHandler(logging.Handler):
    """A handler that raises its failures to the caller. The handlers of `logging` print them and continue."""

    def handleError(self, record: logging.LogRecord) -> NoReturn:  # noqa: ARG002, N802 - names given by logging
        raise  # noqa: PLE0704 - logging calls this inside its except block


class _FileHandler(_RaisingHandler, RotatingFileHandler):
    pass


class _StderrHandler(_RaisingHandler, logging.StreamHandler):  # type: ignore[type-arg]
    pass
