"""An erasure removes an account from every table and file, and removes nothing of other players."""

from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from pyspark.sql import Row, SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.message_limits import EventTimeLimits
from sessionization.ops import erase as ops
from sessionization.ops.maintenance_settings import EraseSettings
from sessionization.players.players_job import keep_players
from sessionization.players.players_settings import PlayersSettings
from sessionization.spark.input.parse import parse
from sessionization.spark.output.sinks import ArchiveSink, SinkContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    BACKFILL,
    DAILY_ACTIVITY,
    PLAYER_DAYS,
    PLAYER_TABLES,
    QUARANTINE,
    RAW_EVENTS,
    SESSION_CHANGES,
    SESSION_PREDICTIONS,
    SESSIONS,
    Table,
)
from tests.support import sent
from tests.support.changes import a_change, changes_frame
from tests.support.checkpoint_folder import reopened
from tests.support.remains import files_that_contain
from tests.support.settings import settings_of
from tests.support.warehouse import catch_up, empty_tables

pytestmark = pytest.mark.spark

ANN, BOB, CID = "ann-4711", "bob-4711", "ann-47"
TABLES = (SESSION_CHANGES, SESSIONS, RAW_EVENTS, QUARANTINE, BACKFILL, SESSION_PREDICTIONS)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def message(session_id: int, event: str, account_id: str | None = None, device: str = "d1") -> bytes:
    return sent.message(session_id, event, device, AT, **({} if account_id is None else {"psnAccountId": account_id}))


ANN_MESSAGES = [
    message(1, "Start", ANN), message(1, "EndBi"), message(3, "Start", None, "d2"), message(3, "EndBi", ANN, "d2"),
    message(4, "EndBi", ANN, "d2"), message(5, "EndBi", ANN, "d3"), message(6, "Unknown", ANN),
    message(7, "Start", ANN)[:-2], message(8, "Start", ANN).replace(b"ann", b"\\u0061nn"),
]  # fmt: skip
OTHER_MESSAGES = [
    message(2, "Start", BOB), message(2, "EndBi", BOB), message(4, "Start", BOB, "d2"), message(9, "Start", CID),
    message(4, "EndBi", None, "d2"), message(9, "EndBi"), message(7, "Start", BOB)[:-2], message(7, "Start", CID)[:-2],
]  # fmt: skip


def an_end(session_id: int, account_id: str | None, device: str = "d1", **fields: object) -> tuple:
    return a_change(
        device_id=device, session_id=session_id, account_id=account_id, change="ended", ended_ms=1_763_726_400_000,
        **{"end_reason": "reported"} | fields,
    )  # fmt: skip


CHANGES = [
    a_change(session_id=1, account_id=ANN), an_end(1, ANN), a_change(session_id=2, account_id=BOB), an_end(2, BOB),
    a_change(device_id="d2", session_id=3), an_end(3, ANN, "d2"),
    a_change(device_id="d2", session_id=4, account_id=BOB),
    an_end(4, ANN, "d2", end_reason="orphaned", started_ms=None, duration_ms=None), an_end(4, BOB, "d2"),
    an_end(5, ANN, "d3", end_reason="orphaned", started_ms=None, duration_ms=None),
    a_change(session_id=9, account_id=CID),
    # An orphaned End of ANN, then a Start of BOB: the row is BOB's, and the end that it shows is ANN's.
    an_end(10, ANN, "d4", end_reason="orphaned", started_ms=None, duration_ms=None),
    a_change(device_id="d4", session_id=10, account_id=BOB),
    # A Start of ANN, then an End that names BOB: the row is ANN's, and the End's change is BOB's.
    a_change(device_id="d5", session_id=12, account_id=ANN), an_end(12, BOB, "d5"),
]  # fmt: skip
OTHER_SESSIONS = {("d1", 2, BOB), ("d2", 4, BOB), ("d1", 9, CID), ("d4", 10, BOB)}
OTHER_CHANGES = OTHER_SESSIONS | {("d5", 12, BOB)}


@pytest.fixture
def location(spark: SparkSession, tmp_path: Path) -> TableLocation:
    location = TableLocation(tmp_path / "warehouse")
    empty_tables(spark, location, owner=reopened(tmp_path / "checkpoints").id)
    rows = [("pc_sessions", None, None, "f", AT, value, AT.date()) for value in ANN_MESSAGES + OTHER_MESSAGES]
    messages = spark.createDataFrame(rows, RAW_EVENTS.schema).selectExpr(
        "*", "bigint(octet_length(value)) AS value_bytes"
    )
    archive = ArchiveSink(SinkContext("archive", location, "writer"))
    archive(parse(messages, EventTimeLimits(1_000, 1_000)), 0)
    location.append(changes_frame(spark, CHANGES), SESSION_CHANGES)
    catch_up(spark, location, tmp_path / "checkpoints")
    # Like a later MERGE, this leaves rows that a deletion vector hides.
    spark.sql(
        f"UPDATE {location.sql_name('sessions')} SET updated_at = updated_at + INTERVAL 1 SECOND WHERE device_id = 'd2'"
    )
    location.overwrite(location.read(spark.read, SESSIONS), BACKFILL)
    forecast = location.read(spark.read, SESSIONS).select("device_id", "session_id", "account_id", "platform")
    location.overwrite(forecast, SESSION_PREDICTIONS)
    return location


@pytest.fixture
def settings(location: TableLocation) -> EraseSettings:
    assert location.warehouse is not None
    return settings_of(
        EraseSettings,
        warehouse=location.warehouse,
        checkpoints=location.warehouse.parent / "checkpoints",
        account=(ANN,),
    )


class FakeState:
    """A stand-in for the operator's state."""

    def __init__(self, spark: SparkSession, _checkpoints: Path) -> None:
        self._spark = spark

    def sessions(self) -> Any:
        rows = [("d1", 1, ANN), ("d2", 3, None), ("d2", 4, BOB), ("d2", 4, None), ("d9", 1, None)]
        return self._spark.createDataFrame(rows, "device_id string, session_id bigint, account_id string")


def sessions_in(spark: SparkSession, location: TableLocation, table: Table) -> set[tuple]:
    return {
        tuple(row) for row in location.read(spark.read, table).select("device_id", "session_id", "account_id").collect()
    }


def shown_ends(rows: list[Row]) -> dict[int, tuple]:
    """By session id: account, end reason, and the end reason and account of the internal `_shown_end`."""
    return {
        row.session_id: (row.account_id, row.end_reason, row._shown_end.end_reason, row._shown_end.account_id)
        for row in rows
        if row._shown_end is not None
    }


def players_of_days(spark: SparkSession, location: TableLocation) -> tuple[set[str], list[int]]:
    """The players that `player_days` names, and the DAU of each day."""
    days = location.read(spark.read, DAILY_ACTIVITY).where("title = 'all' AND platform = 'all'").orderBy("day")
    names = location.read(spark.read, PLAYER_DAYS).select("player").distinct()
    return {row.player for row in names.collect()}, [row.dau for row in days.collect()]


def messages(spark: SparkSession, location: TableLocation, table: Table) -> list[bytes]:
    rows = location.read(spark.read, table).where("value IS NOT NULL").select("value")
    return sorted(bytes(row.value) for row in rows.collect())


def files_in_use(spark: SparkSession, location: TableLocation) -> set[Path]:
    """The files that hold the tables' rows now; a `VACUUM` deletes all others."""
    return {
        Path(unquote(urlsplit(file).path))
        for table in (*TABLES, *PLAYER_TABLES)
        for file in location.read(spark.read, table).inputFiles()
    }


def commits(location: TableLocation) -> str:
    """What the tables' histories say of their commits."""
    assert location.warehouse is not None
    lines = (line for file in location.warehouse.glob("*/_delta_log/*.json") for line in file.open(encoding="utf-8"))
    return "".join(line for line in lines if line.startswith('{"commitInfo"'))


def test_an_erasure_removes_an_account_from_tables_and_files_and_leaves_others_unchanged(
    spark: SparkSession, location: TableLocation, settings: EraseSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert location.warehouse is not None
    assert settings.state.checkpoints is not None
    (settings.state.checkpoints / "sessionize" / "state").mkdir(parents=True)
    monkeypatch.setattr(ops, "StateReader", FakeState)
    assert {SESSIONS.name, RAW_EVENTS.name, BACKFILL.name} <= {
        file.parts[0] for file in files_that_contain(location.warehouse, spark, ANN.encode())
    }

    players = settings_of(PlayersSettings, warehouse=location.warehouse)
    keep_players(players, lambda _: None, Event())
    assert players_of_days(spark, location) == ({ANN, BOB, CID}, [3])

    receipt = ops.erase(settings, lambda _: None)
    assert players_of_days(spark, location) == ({BOB, CID}, [3])
    assert sessions_in(spark, location, SESSION_CHANGES) == OTHER_CHANGES
    assert sessions_in(spark, location, SESSION_PREDICTIONS) == OTHER_SESSIONS
    for table in (SESSIONS, BACKFILL):
        rows = location.read(spark.read, table).collect()
        assert {(row.device_id, row.session_id, row.account_id) for row in rows} == OTHER_SESSIONS
        assert shown_ends(rows) == {
            2: (BOB, "reported", "reported", BOB),
            4: (BOB, "reported", "reported", BOB),
            10: (BOB, "reported", "orphaned", None),
        }
    archived = location.read(spark.read, RAW_EVENTS).collect()
    assert sorted(bytes(row.value) for row in archived if row.value is not None) == sorted(OTHER_MESSAGES)
    positions = [(row.stream, row.partition, row.offset, row.file, row.ingested_at) for row in archived]
    a_position = ("pc_sessions", None, None, "f", AT.astimezone().replace(tzinfo=None))
    assert positions == [a_position] * len(ANN_MESSAGES + OTHER_MESSAGES), (
        "a file without a row would be read again by a warm start"
    )
    counts = {"raw_events": 9, "quarantine": 2, "session_changes": 8, "sessions_backfill": 4, "sessions": 4}
    counts |= {
        "session_predictions": 4,
        "player_days": 1,
        "player_first_days": 1,
        "session_findings": 0,
        "finding_limits": 0,
    }
    assert receipt.deleted == counts
    assert (receipt.unnamed, receipt.state) == (2, 2)
    assert ANN not in str(receipt)
    assert "MERGE" in commits(location)
    assert ANN not in commits(location), "what deletes a name must not write it down"
    in_use = files_in_use(spark, location)
    assert in_use
    assert in_use <= set(location.warehouse.rglob("*.parquet")), "both sides spell paths alike"
    holding = (location.warehouse / file for file in files_that_contain(location.warehouse, spark, ANN.encode()))
    assert in_use.isdisjoint(holding)
    keep_players(players, lambda _: None, Event())
    assert players_of_days(spark, location) == ({BOB, CID}, [2]), "counts follow with the next run"


@pytest.mark.long
def test_an_erasure_is_refused_until_rollup_has_read_all_changes(
    spark: SparkSession, location: TableLocation, settings: EraseSettings
) -> None:
    assert settings.state.checkpoints is not None
    late_changes = [a_change(session_id=11, account_id=ANN), an_end(11, ANN)]
    location.append(changes_frame(spark, late_changes), SESSION_CHANGES)
    location.delta_table(spark, SESSION_CHANGES).optimize().executeCompaction()
    with pytest.raises(CheckpointError, match="rollup has not read all of session_changes"):
        ops.erase(settings, lambda _: None)
    assert messages(spark, location, RAW_EVENTS) == sorted(ANN_MESSAGES + OTHER_MESSAGES)

    catch_up(spark, location, settings.state.checkpoints)
    assert ops.erase(settings, lambda _: None).deleted["sessions"] == 5
    catch_up(spark, location, settings.state.checkpoints)
    assert sessions_in(spark, location, SESSIONS) == OTHER_SESSIONS


@pytest.mark.long
def test_sessions_deleted_by_retention_are_found_through_their_changes_even_by_a_second_run(
    spark: SparkSession, location: TableLocation, settings: EraseSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.sql(f"DELETE FROM {location.sql_name(SESSIONS.name)} WHERE session_id IN (1, 3, 4)")
    touched: list[Table] = []

    def cut_off(erasure: Any, table: Table, *rest: Any) -> int:
        touched.append(table)
        if touched.count(SESSION_CHANGES) > 1:
            raise InterruptedError
        return delete_matching(erasure, table, *rest)

    delete_matching = ops._Erasure._delete_matching
    with monkeypatch.context() as patch:
        patch.setattr(ops._Erasure, "_delete_matching", cut_off)
        with pytest.raises(InterruptedError):
            ops.erase(settings, lambda _: None)
    assert sessions_in(spark, location, SESSION_CHANGES) > OTHER_CHANGES
    ops.erase(settings, lambda _: None)
    assert sessions_in(spark, location, SESSION_CHANGES) == OTHER_CHANGES
    assert sessions_in(spark, location, SESSIONS) == OTHER_SESSIONS - {("d2", 4, BOB)}
    assert messages(spark, location, RAW_EVENTS) == sorted(OTHER_MESSAGES)


def test_an_erasure_without_an_account_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no letter or digit"):
        settings_of(EraseSettings, warehouse=tmp_path, checkpoints=tmp_path, account=("ann", ","))
    with pytest.raises(ConfigurationError, match="--account is missing"):
        ops.erase(settings_of(EraseSettings, warehouse=tmp_path, checkpoints=tmp_path), lambda _: None)
