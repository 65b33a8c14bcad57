"""One line of JSON per micro-batch: a file beside the engine's log, or the cluster's log."""

import json
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import NoReturn

from sessionization.monitor.batch_record import Record

MOST_BYTES, OLDER_FILES = 10_000_000, 3


class BatchLog:
    """Writes records; raises `OSError` where one cannot be written, and tries the next one all the same."""

    def __init__(self, file: Path | None) -> None:
        """`file` is rolled at `MOST_BYTES`; without one the lines go to the process's stderr, which a cluster keeps."""
        self._handler: logging.Handler = (
            _Stderr(sys.__stderr__)
            if file is None
            else _File(file, maxBytes=MOST_BYTES, backupCount=OLDER_FILES, encoding="utf-8", delay=True)
        )

    def __call__(self, record: Record) -> None:
        line = json.dumps(record, separators=(",", ":"))
        self._handler.handle(logging.makeLogRecord({"msg": line}))


class _Raises(logging.Handler):
    """A handler whose failures reach its caller; logging's own prints them and goes on."""

    def handleError(self, record: logging.LogRecord) -> NoReturn:  # noqa: ARG002, N802 - logging's names
        raise  # noqa: PLE0704 - called while the failure is handled


class _File(_Raises, RotatingFileHandler):
    pass


class _Stderr(_Raises, logging.StreamHandler):  # type: ignore[type-arg]
    pass
