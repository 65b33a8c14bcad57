"""Erase a player's data from all tables, and report what was deleted, what remains, and until when."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.clock import wall_clock_ms
from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.message_limits import EventTimeLimits
from sessionization.ops.account_search import (
    Keys,
    frame_names_account,
    json_names_account,
    malformed_text_names_account,
)
from sessionization.ops.exclusive_tables import open_tables_exclusively
from sessionization.ops.maintenance_settings import EraseSettings
from sessionization.ops.source_rows import refuse_rows_in_source
from sessionization.ops.state_reader import StateReader
from sessionization.players.player_erasure import tables_to_erase
from sessionization.say import Say
from sessionization.spark.checkpoint.backlog import refuse_backlog
from sessionization.spark.checkpoint.folder import SESSIONIZE, read_checkpoint
from sessionization.spark.input.avro_messages import check_registry, message_text
from sessionization.spark.input.parse import parse
from sessionization.spark.tables import rollup
from sessionization.spark.tables.conflicts import explain_conflict
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import (
    BACKFILL,
    QUARANTINE,
    RAW_EVENTS,
    RETENTION_PROPERTIES,
    SESSION_CHANGES,
    SESSION_PREDICTIONS,
    SESSIONS,
    Table,
    retention_ms_of,
)

_MESSAGE_TABLES = (RAW_EVENTS, QUARANTINE)
_REQUIRED_TABLES = (SESSION_CHANGES, SESSIONS, QUARANTINE)
_SESSION_KEY = ("device_id", "session_id")
_NO_LIMITS = EventTimeLimits(1 << 60, 1 << 60)
_MESSAGE_COLUMNS = ("ingest_date", "ingested_at", "value")
_ACCOUNT_COLUMN = ("account_id",)
_UNREADABLE_REASONS = ("malformed_json", "oversized")
_VIEW = "_sessionization_erased"
"""The temporary view of the rows that a MERGE matches."""


@dataclass
class Receipt:
    """The report of an erasure; it does not name the accounts.

    Attributes:
        at: when the erasure began.
        deleted: the rows by table; for `raw_events` the rows that were emptied.
        unnamed: the rows of `sessions` that belong to other accounts and named the account in an internal column.
        files_until: by table, when a `VACUUM` deletes the files that hold the rows.
        log_until: by table, when the table's log forgets the smallest and greatest values of those files.
        state: how many entries of the accounts the job's state still holds; None where there is no state.
    """

    at: str
    deleted: dict[str, int] = field(default_factory=dict)
    unnamed: int = 0
    files_until: dict[str, str] = field(default_factory=dict)
    log_until: dict[str, str] = field(default_factory=dict)
    state: int | None = None

    def __str__(self) -> str:
        return json.dumps(asdict(self), indent=2)


def erase(settings: EraseSettings, say: Say) -> Receipt:
    """Delete the accounts' sessions and changes, and the messages that name the accounts or belong to these sessions.

    The sessionize job must be stopped, and its queries must have no backlog that they would write later. On folders its
    checkpoint is locked meanwhile.

    Raises `ConfigurationError` without an account or without tables, `CheckpointError` as
    `open_tables_exclusively` and `refuse_backlog` do, and `IncompleteWorkError` where another program changed a table,
    or, without an archive, as `refuse_rows_in_source` does.
    """
    if not settings.account:
        msg = "--account is missing: give it, as in --account TEXT"
        raise ConfigurationError(msg)
    accounts = sorted(set(settings.account))
    with open_tables_exclusively(settings, _REQUIRED_TABLES, say) as (spark, location, check_leases):
        if settings.state.checkpoints is not None:
            refuse_backlog(settings.state.checkpoints, partial(location.has_append_since, spark, SESSION_CHANGES))
        events, receipt = _event_map(settings), Receipt(_iso(wall_clock_ms()))
        check_registry(spark, events)
        with explain_conflict("a table"):
            account_sessions = _find_sessions(spark, location, accounts)
            if not _archives(spark, location, settings):
                of_accounts = partial(
                    _messages_of_accounts, accounts=accounts, account_sessions=account_sessions, events=events
                )
                refuse_rows_in_source(spark, events, of_accounts)
            _Erasure(spark, location, events, receipt, say, check_leases).erase(accounts, account_sessions)
        if settings.state.checkpoints is not None and (settings.state.checkpoints / SESSIONIZE / "state").is_dir():
            entries = StateReader(spark, settings.state.checkpoints).sessions()
            receipt.state = _rows_of_accounts(entries, accounts, account_sessions).count()
        return receipt


def _find_sessions(spark: SparkSession, location: TableLocation, accounts: list[str]) -> DataFrame:
    """The keys of the accounts' sessions, from `sessions` and from the changes.

    The changes decide where `sessions` no longer has the row, or has it without an account.
    """
    key = list(_SESSION_KEY)
    sessions = location.read(spark.read, SESSIONS)
    changes = location.read(spark.read, SESSION_CHANGES).where("change != 'heartbeat'")
    named = changes.where(F.col("account_id").isin(accounts)).select(key).distinct()
    folded = rollup.fold_by_session(
        changes.join(named.join(sessions.where("account_id IS NOT NULL"), key, "left_anti"), key, "left_semi")
    )
    account = F.coalesce("_first_start.account_id", "_shown_end.account_id")
    keys = sessions.where(F.col("account_id").isin(accounts)).select(key).collect()
    keys += folded.where(account.isin(accounts)).select(key).collect()
    return spark.createDataFrame(keys, f"device_id string, session_id {location.session_id_type(spark)}")


def _rows_of_accounts(
    rows: DataFrame, accounts: list[str], account_sessions: DataFrame, also: Column | None = None
) -> DataFrame:
    """The rows that name an account, the rows of its sessions that name none, and the rows that satisfy `also`."""
    with_owner = rows.join(
        F.broadcast(account_sessions.withColumn("_is_theirs", F.lit(True))), list(_SESSION_KEY), "left"
    )
    found = F.col("account_id").isin(accounts) | (F.col("_is_theirs") & F.col("account_id").isNull())
    return with_owner.where(found if also is None else also | found)


@dataclass(frozen=True, slots=True)
class _Erasure:
    """Deletes by MERGE, never by DELETE: a table's history stores a DELETE's condition, which names the account."""

    spark: SparkSession
    location: TableLocation
    events: EventMap
    receipt: Receipt
    say: Say
    check_leases: Callable[[], None]
    """Raises `StreamError` where another job may change the tables."""

    def erase(self, accounts: list[str], account_sessions: DataFrame) -> None:
        """Delete in an order that allows an interrupted erasure to be repeated.

        First go the messages, then the rows of the `account_sessions` that name no account, then the rows that name an
        account, `sessions` last. So a row that names a session's account goes after the rows that are found by it. The
        rows of `raw_events` stay without their messages: a warm start reads in them which input has been read. The
        tables of the job players come before `sessions`, because their days are found by the rows that they still have.
        """
        location = self.location
        named = self.spark.createDataFrame([(account,) for account in accounts], "account_id string")
        message_tables = location.present(self.spark, _MESSAGE_TABLES)
        for table in message_tables:
            messages = _messages(location.read(self.spark.read, table), accounts, account_sessions, self.events)
            change = "UPDATE SET value = NULL" if table is RAW_EVENTS else "DELETE"
            self._count(table, self._merge(table, messages, _equal(_MESSAGE_COLUMNS), change))
        players = tables_to_erase(self.spark, location, accounts, account_sessions)
        for table in players:
            is_theirs = "t.player_kind = 'account' AND t.player = s.account_id"
            self._count(table, self._merge(table, named, is_theirs, "DELETE"))
        optional = [table for table in (BACKFILL, SESSION_PREDICTIONS) if location.exists(self.spark, table)]
        tables = (SESSION_CHANGES, *optional, SESSIONS)
        nameless = dict.fromkeys(tables, 0)
        if not account_sessions.isEmpty():
            nameless = {
                table: self._delete_matching(table, account_sessions, _SESSION_KEY, "t.account_id IS NULL")
                for table in tables
            }
        for table in tables:
            self._count(table, nameless[table] + self._delete_matching(table, named, _ACCOUNT_COLUMN))
            if "_shown_end" in table.column_names:
                self.receipt.unnamed += self._clear_account(table, named)
        for table in (*message_tables, *tables, *players):
            self._purge(table)

    def _count(self, table: Table, rows: int) -> None:
        self.receipt.deleted[table.name] = rows
        self.say(f"{table.name}: {rows:,} rows are {'emptied' if table is RAW_EVENTS else 'deleted'}")

    def _purge(self, table: Table) -> None:
        """Rewrite the files whose rows deletion vectors hide, and note until when the old files stay."""
        self.check_leases()
        self.spark.sql(f"REORG TABLE {self.location.sql_name(table.name)} APPLY (PURGE)")
        found = self.location.properties(self.spark, table)
        log_ms, files_ms = (retention_ms_of(found, key) for key in RETENTION_PROPERTIES)
        for until, retention_ms in ((self.receipt.files_until, files_ms), (self.receipt.log_until, log_ms)):
            until[table.name] = "unknown" if retention_ms is None else _iso(wall_clock_ms() + retention_ms)

    def _clear_account(self, table: Table, named: DataFrame) -> int:
        """Clear the account in rows of other accounts that name it in their internal `_shown_end`.

        Such a row comes from an End of the account that preceded another player's Start. A row shows the account of its
        Start, if there is one. So a Start that names the account is in a row that is deleted.
        """
        return self._merge(
            table, named, "t._shown_end.account_id = s.account_id", "UPDATE SET _shown_end.account_id = NULL"
        )

    def _delete_matching(self, table: Table, rows: DataFrame, key: tuple[str, ...], condition: str = "true") -> int:
        """Delete a table's rows that equal one of `rows` in the columns `key` and satisfy `condition`."""
        return self._merge(table, rows, f"{_equal(key)} AND {condition}", "DELETE")

    def _merge(self, table: Table, rows: DataFrame, on: str, change: str) -> int:
        """Change the rows `t` that match one of `rows` (`s`); returns how many. SQL, as `TableLocation.history`."""
        self.check_leases()
        rows.createOrReplaceTempView(_VIEW)
        target = self.location.sql_name(table.name)
        merge = f"MERGE INTO {target} AS t USING {_VIEW} AS s ON {on} WHEN MATCHED THEN {change}"
        count = int(self.spark.sql(merge).collect()[0]["num_affected_rows"])
        self.spark.catalog.dropTempView(_VIEW)
        return count


def _archives(spark: SparkSession, location: TableLocation, settings: EraseSettings) -> bool:
    """Whether `raw_events` has the messages."""
    checkpoints = settings.state.checkpoints
    return location.exists(spark, RAW_EVENTS) if checkpoints is None else read_checkpoint(checkpoints).pinned.archives


def _event_map(settings: EraseSettings) -> EventMap:
    checkpoints = settings.state.checkpoints
    remembered = None if checkpoints is None else read_checkpoint(checkpoints).events
    return settings.event_map or remembered or package_map(DEFAULT)


def _messages(messages: DataFrame, accounts: list[str], account_sessions: DataFrame, events: EventMap) -> DataFrame:
    """The keys of the messages that name an account, and of its sessions' messages without an account."""
    found = _messages_of_accounts(messages.select("stream", *_MESSAGE_COLUMNS), accounts, account_sessions, events)
    return found.select(*_MESSAGE_COLUMNS).distinct()


def _messages_of_accounts(
    messages: DataFrame, accounts: list[str], account_sessions: DataFrame, events: EventMap
) -> DataFrame:
    """The messages that name an account, in JSON or malformed text, and its sessions' messages without an account."""
    parsed = parse(messages, _NO_LIMITS, events)
    is_readable = ~F.coalesce(F.col("reason").isin(*_UNREADABLE_REASONS), F.lit(False))
    value, keys = F.col("value"), Keys.of(events)
    text = message_text(messages.sparkSession, events)
    unreadable = malformed_text_names_account(value, accounts, keys)
    if events.is_avro:
        unreadable |= frame_names_account(value, accounts)
    names = F.when(is_readable, json_names_account(text, accounts, keys)).otherwise(unreadable)
    named = names | F.coalesce(F.col("account_id").isin(accounts), F.lit(False))
    parsed = parsed.withColumn("names_account", F.coalesce(named, F.lit(False)))
    return _rows_of_accounts(parsed, accounts, account_sessions, F.col("names_account"))


def _equal(key: tuple[str, ...]) -> str:
    return " AND ".join(f"t.{name} = s.{name}" for name in key)


def _iso(instant_ms: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant_ms)).isoformat(timespec="seconds")
