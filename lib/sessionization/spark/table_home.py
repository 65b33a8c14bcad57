"""Where the tables are, how they are reached there, and how they come to be."""

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.say import Say
from sessionization.spark.checkpoint import read_checkpoint
from sessionization.spark.conflicts import again_on_conflict
from sessionization.spark.lock import OF_STREAM, OF_TABLES, locked
from sessionization.spark.tables import (
    LATE_ENDS_SHOWN,
    PROPERTIES_OF_ALL,
    RAW_EVENTS,
    SESSION_CHANGES,
    SESSIONS,
    TABLES,
    Table,
)

OWNER_PROPERTY = "sessionization.checkpoint"
"""Table property that names the checkpoint whose queries write the table."""

_COMMITS_LOOKED_AT = 100
_APPENDS = ("WRITE", "STREAMING UPDATE")
_ONE_OF_EACH_QUERY = (SESSION_CHANGES, SESSIONS, RAW_EVENTS)


class NamesHome(Protocol):
    """Settings that say where the tables are, checked by `home.check_home`."""

    @property
    def warehouse(self) -> Path | None: ...

    @property
    def catalog(self) -> str | None: ...

    @property
    def schema_name(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class TableHome:
    """Where the tables are: folders of a warehouse, or tables of a Unity Catalog schema."""

    warehouse: Path | None = None
    catalog: str | None = None
    schema: str | None = None

    @classmethod
    def of(cls, settings: NamesHome) -> Self:
        return cls(settings.warehouse, settings.catalog, settings.schema_name)

    def __str__(self) -> str:
        return str(self.warehouse.absolute()) if self.warehouse is not None else f"{self.catalog}.{self.schema}"

    def sql_name(self, name: str) -> str:
        """The name by which SQL knows a table or a catalog view."""
        if self.warehouse is not None:
            return f"delta.{_quoted(self._folder(name))}"
        return ".".join(_quoted(part) for part in (self.catalog or "", self.schema or "", name))

    def exists(self, spark: SparkSession, table: Table) -> bool:
        if self.warehouse is not None:
            return DeltaTable.isDeltaTable(spark, self._folder(table.name))
        return spark.catalog.tableExists(self.sql_name(table.name))

    def missing(self, spark: SparkSession, tables: Iterable[Table]) -> list[str]:
        """The names of those of the tables that are not there."""
        return [table.name for table in tables if not self.exists(spark, table)]

    def require(self, spark: SparkSession, tables: Iterable[Table]) -> None:
        """Raises `ConfigurationError` where one of the tables is not there."""
        self._refuse_without(self.missing(spark, tables))

    def require_folder(self, table: Table) -> None:
        """As `require`, before there is an engine to ask; of tables in a catalog nothing is known then."""
        self._refuse_without([] if self.warehouse is None or self._has_log(table) else [table.name])

    def _refuse_without(self, names: list[str]) -> None:
        if names:
            msg = f"{self} does not hold {', '.join(names)}: give the home of the sessionize job's tables, or start it first"
            raise ConfigurationError(msg)

    def delta_table(self, spark: SparkSession, table: Table) -> DeltaTable:
        if self.warehouse is not None:
            return DeltaTable.forPath(spark, self._folder(table.name))
        return DeltaTable.forName(spark, self.sql_name(table.name))

    def properties(self, spark: SparkSession, table: Table) -> dict[str, str]:
        """A table's properties, from its metadata alone: `DESCRIBE DETAIL` would read the whole log."""
        rows = spark.sql(f"SHOW TBLPROPERTIES {self.sql_name(table.name)}").collect()
        return {row.key: row.value for row in rows}

    def owner(self, spark: SparkSession, table: Table) -> str | None:
        """The checkpoint whose queries write a table; None where it was made by something else."""
        return self.properties(spark, table).get(OWNER_PROPERTY)

    def refuse_other_owner(self, spark: SparkSession, checkpoints: Path) -> None:
        """Check that the folder is the checkpoint whose queries write the tables.

        Raises `CheckpointError` where it is another one, or none at all; it is only read.
        """
        owner = read_checkpoint(checkpoints).id
        for table in _ONE_OF_EACH_QUERY:
            do = ": give that one's folder, or the home of this one's tables"
            _refuse_other_owner(spark, self, table, owner, do, of=f" of --checkpoints {checkpoints}")

    @contextmanager
    def held(self, say: Say, stop: threading.Event | None = None) -> Iterator[None]:
        """Where the tables are folders, keep out who else writes them beside the stream while the body runs.

        There a commit may replace that of another process. The sessionize job is kept out by its checkpoint, but for the moment
        in which it takes the tables over, when it holds them itself. A folder
        without tables is left as it is, and not held: who must not go on there when somebody makes them asks
        `require_folder` before.

        Raises as `locked` does.
        """
        if self.warehouse is None or not self._has_log(SESSION_CHANGES):
            yield
            return
        with locked(self.warehouse, say, stop, option="--warehouse", name=OF_TABLES):
            yield

    @contextmanager
    def held_for_stream(self, say: Say, stop: threading.Event | None = None) -> Iterator[None]:
        """Where the tables are folders, let one sessionize job write them, whatever checkpoint another one has.

        A job that has hung does not notice that a warm start has taken the tables over. Raises as `locked` does.
        """
        if self.warehouse is None:
            yield
            return
        with locked(self.warehouse, say, stop, option="--warehouse", name=OF_STREAM):
            yield

    def read(self, reader: DataFrameReader | DataStreamReader, table: Table) -> DataFrame:
        """Read a table as a batch (`spark.read`) or as a stream (`spark.readStream`)."""
        if self.warehouse is not None:
            return reader.format("delta").load(self._folder(table.name))
        return reader.table(self.sql_name(table.name))

    def append_once(self, rows: DataFrame, table: Table, *, writer: str, batch_id: int) -> None:
        """Append a micro-batch's rows; a second call for the same writer and batch appends nothing."""
        self.append(rows, table, txnAppId=writer, txnVersion=str(batch_id), userMetadata=f"{writer} {batch_id}")

    def last_append(self, spark: SparkSession, table: Table, writer: str) -> int:
        """The newest micro-batch that a writer has appended, -1 where the table's last commits name none."""
        commits = self.delta_table(spark, table).history(_COMMITS_LOOKED_AT).select("userMetadata").collect()
        named = ((row.userMetadata or "").rpartition(" ") for row in commits)
        return max((int(batch_id) for name, _, batch_id in named if name == writer), default=-1)

    def is_appended_since(self, spark: SparkSession, table: Table, version: int) -> bool:
        """Whether that version of a table or a later one appended rows; also where there are too many to look at each."""
        found = self.delta_table(spark, table)
        newest = found.history(1).collect()[0].version
        count = min(newest - version + 1, _COMMITS_LOOKED_AT)
        commits = found.history(count).select("operation").collect() if count > 0 else []
        return len(commits) == _COMMITS_LOOKED_AT or any(commit.operation in _APPENDS for commit in commits)

    @again_on_conflict
    def append(self, rows: DataFrame, table: Table, **options: str) -> None:
        """Append the rows; where somebody changes the table's settings meanwhile, as `maintain` does, again, a few times."""
        append = rows.write.format("delta").mode("append").options(**options)
        if self.warehouse is not None:
            append.save(self._folder(table.name))
        else:
            append.saveAsTable(self.sql_name(table.name))

    def overwrite(self, rows: DataFrame, table: Table) -> None:
        """Make a table anew of these rows, whatever it held."""
        write = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        if self.warehouse is not None:
            write.save(self._folder(table.name))
        else:
            write.saveAsTable(self.sql_name(table.name))

    def _folder(self, name: str) -> str:
        assert self.warehouse is not None
        return str(self.warehouse.absolute() / name)

    def _has_log(self, table: Table) -> bool:
        return Path(self._folder(table.name), "_delta_log").is_dir()


def refuse_missing(spark: SparkSession, home: TableHome) -> None:
    """Check that there are tables to take over: raises `ConfigurationError` where one is missing."""
    if missing := home.missing(spark, TABLES):
        msg = (
            f"--from-sessions needs the tables of a job before: {home} lacks {', '.join(missing)}; leave it out for a "
            "first start, or give the home that they are in"
        )
        raise ConfigurationError(msg)


def take_over(spark: SparkSession, home: TableHome, owner: str) -> None:
    """Make all tables those of another checkpoint; the one that wrote them before is refused from then on."""
    for table in TABLES:
        if home.owner(spark, table) != owner:
            spark.sql(f"ALTER TABLE {home.sql_name(table.name)} SET TBLPROPERTIES ('{OWNER_PROPERTY}' = '{owner}')")


def create_tables(spark: SparkSession, home: TableHome, *, owner: str, may_create: bool) -> None:
    """Create the tables that are missing, and check that the others belong to the checkpoint `owner`.

    Rows of `sessions` that an earlier version wrote are brought in line with this one.
    Of new tables one comes first: of two jobs that start at the same moment its creation is only one's, and the other one
    is refused before it has created any.

    Raises `ConfigurationError` where the tables cannot be created, and `CheckpointError` where a table is another
    checkpoint's, or is missing though its checkpoint has been used (`may_create` false).
    """
    first, *others = TABLES
    if may_create:
        _create_or_check(spark, home, first, owner, may_create)
    else:
        others = list(TABLES)
    with ThreadPoolExecutor(len(TABLES)) as pool:
        checks = [pool.submit(_create_or_check, spark, home, table, owner, may_create) for table in others]
    for check in checks:
        check.result()


def _create_or_check(spark: SparkSession, home: TableHome, table: Table, owner: str, may_create: bool) -> None:  # noqa: FBT001
    if not home.exists(spark, table):
        if not may_create:
            msg = (
                f"table {table.name} is missing in {home}, but the checkpoint says that it was written: "
                "bring the table back, or start with a new --checkpoints folder and an empty home for the tables"
            )
            raise CheckpointError(msg)
        _create(spark, home, table, owner)
    do = (
        "; a second one would double every row: give that checkpoint's folder as --checkpoints, or another home for the "
        "tables"
    )
    _refuse_other_owner(spark, home, table, owner, do)
    _add_columns(spark, home, table)
    if table is SESSIONS:
        show_late_ends(spark, home)


@again_on_conflict
def show_late_ends(spark: SparkSession, home: TableHome) -> None:
    """Bring the rows of `sessions` that an earlier version wrote in line, once; see `tables.LATE_ENDS_SHOWN`."""
    name, value = LATE_ENDS_SHOWN
    if home.properties(spark, SESSIONS).get(name) != value:
        is_late = "end_reason = 'orphaned' AND started_at IS NOT NULL"
        home.delta_table(spark, SESSIONS).update(is_late, {"end_reason": "'reported'"})
        spark.sql(f"ALTER TABLE {home.sql_name(SESSIONS.name)} SET TBLPROPERTIES ('{name}' = '{value}')")


@again_on_conflict
def _add_columns(spark: SparkSession, home: TableHome, table: Table) -> None:
    """Add the columns that a table of an earlier version lacks, at its end; its rows are null there."""
    known = set(home.read(spark.read, table).columns)
    lacking = [column for column in table.columns if column.name not in known]
    if lacking:
        added = ", ".join(f"{column.name} {column.type} COMMENT '{column.comment}'" for column in lacking)
        spark.sql(f"ALTER TABLE {home.sql_name(table.name)} ADD COLUMNS ({added})")


def _refuse_other_owner(
    spark: SparkSession, home: TableHome, table: Table, owner: str, do: str, *, of: str = ""
) -> None:
    """Check that a table is the owner's; raises `CheckpointError` that says what to `do`, and `of` what the owner is."""
    found = home.owner(spark, table)
    if found != owner:
        msg = f"table {table.name} in {home} is written by another checkpoint ({found}, not {owner}{of}){do}"
        raise CheckpointError(msg)


def _create(spark: SparkSession, home: TableHome, table: Table, owner: str) -> None:
    builder = DeltaTable.createIfNotExists(spark).comment(table.comment).property(OWNER_PROPERTY, owner)
    if home.warehouse is not None:
        builder = builder.location(str(home.warehouse.absolute() / table.name))
    else:
        builder = builder.tableName(home.sql_name(table.name))
    for column in table.columns:
        builder = builder.addColumn(column.name, column.type, nullable=column.nullable, comment=column.comment)
    constraints = [(f"delta.constraints.{name}", condition) for name, condition in table.constraints]
    for name, value in (*PROPERTIES_OF_ALL, *table.properties, *constraints):
        builder = builder.property(name, value)
    if table.partitioned_by:
        builder = builder.partitionedBy(*table.partitioned_by)
    builder.execute()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
