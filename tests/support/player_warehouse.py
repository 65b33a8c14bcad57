"""A warehouse whose `sessions` follow random weeks, and the tables that the job players keeps there."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from sessionization.core.events import Change, ChangeKind
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.players.player_erasure import tables_to_erase
from sessionization.players.players_job import create_player_tables, update
from sessionization.players.players_settings import PlayersSettings
from sessionization.spark.tables.creation import fit_to_events
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import STREAM_PROGRESS
from sessionization.spark.tables.views import create_views
from tests.support.changes import frame
from tests.support.delta import read_table
from tests.support.player_oracle import Played, PlayerOracle, PlayerSession, player_oracle
from tests.support.reference_sessions import session_rows
from tests.support.settings import settings_of
from tests.support.warehouse import empty_tables, frame_of, merge_changes


class KilledError(Exception):
    """The process is gone."""


KEYS = {
    "player_days": ("day", "player_kind", "player", "title", "platform"),
    "daily_activity": ("day", "title", "platform"),
    "retention": ("cohort_day", "title"),
    "player_first_days": ("player_kind", "player", "title"),
}


@dataclass
class Boundaries:
    """Passed to a run as its check: counts the boundaries, and kills the run at the one of this number."""

    killed_at: int | None = None
    passed: int = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.killed_at:
            raise KilledError


@dataclass
class PlayerWarehouse:
    spark: SparkSession
    location: TableLocation
    time_zone: str = "UTC"
    changes: list[tuple[str, Change]] = field(default_factory=list)
    now_ms: int = 0

    @classmethod
    def create(cls, spark: SparkSession, folder: Path, time_zone: str = "UTC") -> "PlayerWarehouse":
        location = empty_tables(spark, TableLocation(folder), owner="owner")
        fit_to_events(spark, location, package_map(DEFAULT), ("title",))
        create_player_tables(spark, location)
        return cls(spark, location, time_zone)

    def stream(self, now_ms: int, changes: list[tuple[str, Change]]) -> None:
        """What the job sessionize has written by `now_ms`: one MERGE of these changes, and its newest micro-batch."""
        merge_changes(self.spark, self.location, frame(self.spark, changes, ("title",)).where("change != 'heartbeat'"))
        self.changes += changes
        self.now_ms = now_ms
        row = {
            "query": "sessionize",
            "batch_id": 1,
            "rows_in": 1,
            "processed_at": datetime.fromtimestamp(now_ms / 1_000, UTC),
        }
        self.location.append(frame_of(self.spark, STREAM_PROGRESS, [row]), STREAM_PROGRESS)

    def update(self, check: Callable[[], None] = lambda: None, **options: object) -> list[str]:
        """A run of the job players; returns what it says."""
        settings = settings_of(
            PlayersSettings, warehouse=self.location.warehouse, **{"time_zone": self.time_zone} | options
        )
        lines: list[str] = []
        update(self.spark, self.location, settings, lines.append, check)
        return lines

    def played(self, changes: list[tuple[str, Change]] | None = None) -> list[Played]:
        """The sessions after all changes, by the second implementation."""
        rows = session_rows(self.changes if changes is None else changes).items()
        return [
            Played(
                device_id, session_id, row.account_id, row.labels[0], row.platform, row.started_ms,
                max(self.now_ms, row.started_ms) if row.ended_ms is None else row.ended_ms,
                row.end_reason, row.foreground_s,
            )
            for (device_id, session_id), row in rows if row.started_ms is not None
        ]  # fmt: skip

    def oracle(self, changes: list[tuple[str, Change]] | None = None) -> PlayerOracle:
        return player_oracle(self.played(changes), self.time_zone, self.now_ms)

    def erase(self, account: str) -> None:
        """What the job erase_account does to these tables and to `sessions`."""
        theirs = {key for key, row in session_rows(self.changes).items() if row.account_id == account}
        keys = self.spark.createDataFrame(sorted(theirs), "device_id string, session_id bigint")
        for table in tables_to_erase(self.spark, self.location, [account], keys):
            name = self.location.sql_name(table.name)
            self.spark.sql(f"DELETE FROM {name} WHERE player_kind = 'account' AND player = '{account}'")
        self.spark.sql(f"DELETE FROM {self.location.sql_name('sessions')} WHERE account_id = '{account}'")
        self.changes = [
            (device, change) for device, change in self.changes if (device, change.session_id) not in theirs
        ]

    def player_sessions(self) -> dict[tuple[str, int], PlayerSession]:
        """The rows of the view."""
        create_views(self.spark, self.location, ("player_sessions",))
        rows = self.spark.sql("SELECT device_id, session_id, number, gap_ms, overlaps FROM player_sessions").collect()
        return {(row.device_id, row.session_id): PlayerSession(row.number, row.gap_ms, row.overlaps) for row in rows}

    def rows(self, table: str) -> dict[tuple, dict[str, Any]]:
        assert self.location.warehouse is not None
        rows = {}
        for row in read_table(self.location.warehouse / table):
            key = tuple(row.pop(name) for name in KEYS[table])
            assert key not in rows
            rows[key] = row
        return rows

    def differences(self, oracle: PlayerOracle) -> list[str]:
        """Rows that differ from the oracle's, of all tables."""
        found = []
        for table in KEYS:
            expected = {tuple(map(_as_stored, key)): row for key, row in getattr(oracle, table).items()}
            actual = self.rows(table)
            for key in expected.keys() | actual.keys():
                want, have = ({k: _as_stored(v) for k, v in rows.get(key, {}).items()} for rows in (expected, actual))
                if want != have:
                    both = {
                        k: (want.get(k), have.get(k)) for k in want.keys() | have.keys() if want.get(k) != have.get(k)
                    }
                    found.append(f"{table} {key}: {both}")
        return found


def _as_stored(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def without_heartbeats(changes: list[tuple[str, Change]]) -> list[tuple[str, Change]]:
    return [change for change in changes if change[1].kind is not ChangeKind.HEARTBEAT]
