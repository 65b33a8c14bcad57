"""The messages in the source of a job: lines of files, or records of topics."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from tests.support.checkpoints import Batch, path_of
from tests.support.wire import lines_of

_MOST_BYTES = 64 * 1024 + 1


@dataclass(frozen=True)
class Message:
    """The columns of `raw_events`, without the date, and the length before a long line of a file was cut."""

    stream: str
    partition: int | None
    offset: int | None
    file: str | None
    ingested_ms: int
    value: bytes | None
    value_bytes: int | None


class Source(Protocol):
    """Returns the messages of a micro-batch."""

    def messages_of(self, batch: Batch) -> Iterable[Message]: ...


class Files:
    """The lines of the files that a micro-batch read; a file at a URI is read from a copy with the same path here."""

    def messages_of(self, batch: Batch) -> Iterable[Message]:
        for uri in batch.files:
            path = path_of(uri)
            file = uri if uri.startswith(("hdfs:", "s3a:", "dbfs:")) else f"file://{quote(str(path))}"
            ingested_ms = path.stat().st_mtime_ns // 1_000_000
            for line in lines_of(path.read_bytes()):
                yield Message(path.parent.name, None, None, file, ingested_ms, line[:_MOST_BYTES], len(line))
