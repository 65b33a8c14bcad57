"""A job whose messages are rows of Delta tables; an evening's files are appended to them while it runs."""

from collections.abc import Sequence
from pathlib import Path

from tests.support.bronze import Bronze, Tables
from tests.support.checkpoints import batches_of
from tests.support.evening import Evening, place_in_evening
from tests.support.job import ENTRY, Job
from tests.support.messages import Source
from tests.support.wire import lines_of

_COMPACT_EVERY, _COLUMN_AFTER = 5, 7


def table_events(folder: Path) -> str:
    """The event map `default`, whose messages are in the column `body` of two tables."""
    return f"""
version: 1
streams:
  pc_sessions: {{platform: pc, device_id: hostPcId, table: {folder}/bronze/pc}}
  console_sessions: {{platform: console, device_id: openPsid, table: {folder}/bronze/console, value: BODY}}
session_id: appSessionId
event: eventId
kinds: {{start: [ApplicationSessionStart], end: [ApplicationSessionEndBi]}}
event_time: {{path: timestamp, format: iso8601}}
account_id: psnAccountId
foreground_s: {{path: totalFgTime, unit: s}}
ingested_at: ingested_at
value: body
"""


class TableJob(Job):
    """Reads two tables. Now and then one is compacted, and once a column is added."""

    def __init__(self, folder: Path, *options: str, entry: Sequence[str | Path] = (ENTRY,)) -> None:
        super().__init__(folder, "--source=table", *options, entry=entry)
        self.tables = {
            "pc_sessions": Bronze(folder / "bronze" / "pc"),
            "console_sessions": Bronze(folder / "bronze" / "console"),
        }
        self._inbox, self._appended = folder / "inbox", 0

    def place_options(self) -> tuple[str, ...]:
        folders = (*self.table_options(), "--checkpoints", self.location_of(self.checkpoints))
        return (*folders, "--mlflow=off")

    def release(self, evening: Evening, files: int | None = None) -> None:
        """Append the lines of files, each a version with two files of rows."""
        evening.release(self._inbox, files)
        for file in sorted(self._inbox.glob("*/*.json"), key=place_in_evening):
            table, ingested_us = self.tables[file.parent.name], file.stat().st_mtime_ns // 1_000_000 * 1_000
            rows = [(ingested_us, line) for line in lines_of(file.read_bytes())]
            file.unlink()
            if parts := [part for part in (rows[::2], rows[1::2]) if part]:
                table.append(*parts)
                self._appended += 1
                if self._appended % _COMPACT_EVERY == 0:
                    table.compact()
                if self._appended == _COLUMN_AFTER:
                    table.add_column("extra")

    def messages(self) -> Source:
        return Tables(self.tables)

    def _has_read_everything(self) -> bool:
        read = Tables(self.tables)
        return all(
            any(batch.is_committed and read.are_read_by(batch) for batch in batches_of(self.checkpoints / query)[-2:])
            for query in ("sessionize", "archive")
        )
