"""The location of the tables: how they are read, appended to and locked there."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import date
from typing import Self

from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader

from sessionization.databricks import on_databricks
from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.hadoop_path import AnyPath, parse_location
from sessionization.layout_version import refuse_other_layout
from sessionization.private_spark import jvm_of
from sessionization.say import Say
from sessionization.settings.table_location_settings import FolderTables, Tables
from sessionization.spark.checkpoint import folder_lock
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.schemas import (
    FIRST_START,
    LAYOUT_PROPERTY,
    QUARANTINE,
    SESSION_CHANGES,
    SESSIONS,
    Table,
)
from sessionization.sql_text import quoted_name, quoted_text

OWNER_PROPERTY = "sessionization.checkpoint"
"""Table property that names the checkpoint whose queries write the table."""

_CATALOG_MANAGED = "delta.feature.catalogManaged"
"""The property that a table shows whose commits the catalog itself makes."""

MAX_COMMITS_READ = 100
"""Of a table's history at most this many of its newest commits are read."""
_APPEND_OPERATIONS = ("WRITE", "STREAMING UPDATE")
_NOT_FOUND = {
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_PATH_DOES_NOT_EXIST",
    "DELTA_TABLE_NOT_FOUND",
    "PATH_NOT_FOUND",
    "SCHEMA_NOT_FOUND",
    "TABLE_OR_VIEW_NOT_FOUND",
}
"""The conditions of Spark 4.2 and Delta 4.4 for what does not exist."""
_ONE_TABLE_PER_QUERY = (SESSION_CHANGES, SESSIONS, QUARANTINE)


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The location of the tables: folders of a warehouse, or a schema of Unity Catalog."""

    warehouse: AnyPath | None = None
    catalog: str | None = None
    schema: str | None = None

    @classmethod
    def of(cls, tables: Tables) -> Self:
        if isinstance(tables, FolderTables):
            return cls(tables.warehouse)
        return cls(None, tables.catalog, tables.schema_name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The location that `str` has written as this text."""
        if text.startswith("/") or "://" in text:
            return cls(parse_location(text))
        catalog, _, schema = text.partition(".")
        return cls(None, catalog, schema)

    def __str__(self) -> str:
        return str(self.warehouse.absolute()) if self.warehouse is not None else f"{self.catalog}.{self.schema}"

    def delta_name(self, name: str) -> str:
        """The name of a catalog's table for Delta's own methods, which take no catalog before Spark's own schemas."""
        return self.sql_name(name).removeprefix("`spark_catalog`.")

    def sql_name(self, name: str) -> str:
        """The name of a table or a catalog view in SQL."""
        if self.warehouse is not None:
            return f"delta.{quoted_name(self._folder(name))}"
        return ".".join(quoted_name(part) for part in (self.catalog or "", self.schema or "", name))

    def exists(self, spark: SparkSession, table: Table) -> bool:
        if self.warehouse is None:
            return spark.catalog.tableExists(self.sql_name(table.name))
        if jvm_of(spark) is not None:
            return DeltaTable.isDeltaTable(spark, self._folder(table.name))
        try:  # Spark Connect has no JVM, and Delta's own call needs a plugin of the server
            self.properties(spark, table)
        except AnalysisException as error:
            if error.getCondition() in _NOT_FOUND:
                return False
            raise  # such as a right that is missing: the table may be there
        return True

    def missing(self, spark: SparkSession, tables: Iterable[Table]) -> list[str]:
        """The names of the tables that do not exist."""
        return [table.name for table in tables if not self.exists(spark, table)]

    def present(self, spark: SparkSession, tables: Iterable[Table]) -> list[Table]:
        """The tables that exist."""
        return [table for table in tables if self.exists(spark, table)]

    def require(self, spark: SparkSession, tables: Sequence[Table]) -> None:
        """Raises `ConfigurationError` where one of the tables does not exist, or as `refuse_other_layout` does."""
        self._refuse_missing(self.missing(spark, tables))
        self.refuse_other_layout(spark, tables)

    def refuse_other_layout(self, spark: SparkSession, tables: Sequence[Table]) -> None:
        """Raises `CheckpointError` where one of the tables has the layout of another release."""
        for table in tables:
            self._refuse_other_layout(table, self.properties(spark, table))

    def _refuse_other_layout(self, table: Table, properties: Mapping[str, str]) -> None:
        refuse_other_layout(
            f"table {table.name} in {self}",
            properties.get(LAYOUT_PROPERTY),
            dict(table.properties).get(LAYOUT_PROPERTY),
            "begin with an empty location for the tables and an empty folder for the checkpoints",
        )

    def require_folder(self, table: Table) -> None:
        """As `require`, but without an engine: it checks folders, and accepts any table of a catalog."""
        self._refuse_missing([] if self.warehouse is None or self._has_log(table) else [table.name])

    def _refuse_missing(self, names: list[str]) -> None:
        if names:
            msg = (
                f"{self} does not hold {', '.join(names)}: "
                "give the location of the sessionize job's tables, or start it first"
            )
            raise ConfigurationError(msg)

    def delta_table(self, spark: SparkSession, table: Table) -> DeltaTable:
        if self.warehouse is not None:
            return DeltaTable.forPath(spark, self._folder(table.name))
        return DeltaTable.forName(spark, self.delta_name(table.name))

    def properties(self, spark: SparkSession, table: Table) -> dict[str, str]:
        """A table's properties, read from its metadata alone: `DESCRIBE DETAIL` would read the whole log."""
        rows = spark.sql(f"SHOW TBLPROPERTIES {self.sql_name(table.name)}").collect()
        return {row.key: row.value for row in rows}

    def session_id_type(self, spark: SparkSession) -> str:
        """The type of the session ids in the tables."""
        return self.read(spark.read, SESSION_CHANGES).schema["session_id"].dataType.simpleString()

    def labels(self, spark: SparkSession) -> tuple[str, ...]:
        """The label columns of the tables: those that the inputs of a row of `sessions` have too."""
        [first_start] = spark.sql(f"SELECT _first_start FROM {self.sql_name(SESSIONS.name)}").schema
        return tuple(first_start.dataType.names[len(FIRST_START) :])  # type: ignore[attr-defined]

    def set_properties_sql(self, table: Table, properties: Mapping[str, str]) -> str:
        """The statement that sets properties of a table."""
        written = ", ".join(f"{quoted_text(name)} = {quoted_text(value)}" for name, value in properties.items())
        return f"ALTER TABLE {self.sql_name(table.name)} SET TBLPROPERTIES ({written})"

    def refuse_catalog_managed(self, spark: SparkSession, tables: Iterable[Table]) -> None:
        """Raises `ConfigurationError` where this engine's Delta cannot maintain a table, because the catalog commits.

        Open-source Delta (4.4) reads and appends to such a table by a catalog that supports it, but refuses `OPTIMIZE`
        and `VACUUM`, so a job would end after it has deleted rows. Databricks' own Delta does all of it.
        """
        if on_databricks():
            return
        names = [table.name for table in tables if _CATALOG_MANAGED in self.properties(spark, table)]
        if names:
            msg = (
                f"the catalog itself commits to {', '.join(names)} in {self} (Delta's feature catalogManaged), and "
                "open-source Delta refuses OPTIMIZE and VACUUM there: nothing was changed; run this job on Databricks"
            )
            raise ConfigurationError(msg)

    def refuse_other_owner(self, spark: SparkSession, checkpoints: AnyPath) -> None:
        """Check that the folder is the checkpoint whose queries write the tables.

        Only reads the folder. Raises `CheckpointError` where it is another checkpoint, or none at all.
        """
        owner = read_checkpoint(checkpoints).id
        advice = (
            f"--checkpoints {checkpoints} is of another job: give the folder of this one's job, or that job's tables"
        )
        for table in _ONE_TABLE_PER_QUERY:
            self.check_owner(spark, table, owner, advice)

    def check_owner(self, spark: SparkSession, table: Table, owner: str, advice: str) -> None:
        """Raises `CheckpointError`, with `advice`, where the table belongs to another checkpoint than `owner`.

        Also raises it as `refuse_other_layout` does.
        """
        properties = self.properties(spark, table)
        found = properties.get(OWNER_PROPERTY)
        if found != owner:
            msg = f"table {table.name} in {self} is written by another checkpoint ({found}, not {owner}): {advice}"
            raise CheckpointError(msg)
        self._refuse_other_layout(table, properties)

    def lock_for_maintenance(self, say: Say, stop: threading.Event | None = None) -> AbstractContextManager[bool]:
        """Lock tables that are folders against processes other than the stream that write them, while the body runs.

        In folders, one process's commit may replace another's. The sessionize job's checkpoint excludes that job.
        Only while the job takes over the tables, it holds this lock itself.

        A folder without tables stays unlocked and unchanged. A caller that needs tables must call `require_folder`
        first. Yields as `lock_for_stream` does. Raises the errors of `lock_folder`.
        """
        if self.warehouse is None or not self._has_log(SESSION_CHANGES):
            return nullcontext(enter_result=False)
        return folder_lock.lock_folder(self.warehouse, say, stop, locked_as=folder_lock.TABLES)

    def lock_for_stream(self, say: Say, stop: threading.Event | None = None) -> AbstractContextManager[bool]:
        """Lock tables that are folders against any other sessionize job, whatever its checkpoint, while the body runs.

        A hung job does not notice that a warm start took over its tables. Yields whether the lock excludes every other
        job: not for tables in a catalog, in a volume, or on storage of several machines. Raises the errors of
        `lock_folder`.
        """
        if self.warehouse is None:
            return nullcontext(enter_result=False)
        return folder_lock.lock_folder(self.warehouse, say, stop, locked_as=folder_lock.STREAM)

    def lock_for_players(self, say: Say, stop: threading.Event | None = None) -> AbstractContextManager[bool]:
        """Lock the tables of the job players against any other job that changes them; yields as `lock_for_stream`."""
        if self.warehouse is None:
            return nullcontext(enter_result=False)
        return folder_lock.lock_folder(self.warehouse, say, stop, locked_as=folder_lock.PLAYERS)

    def read(self, reader: DataFrameReader | DataStreamReader, table: Table) -> DataFrame:
        """Read a table as a batch (`spark.read`) or as a stream (`spark.readStream`)."""
        if self.warehouse is not None:
            return reader.format("delta").load(self._folder(table.name))
        return reader.table(self.sql_name(table.name))

    def history(self, spark: SparkSession, table: Table, limit: int) -> DataFrame:
        """The newest commits of a table; SQL, because Delta's own method needs a plugin over Spark Connect."""
        return spark.sql(f"DESCRIBE HISTORY {self.sql_name(table.name)} LIMIT {limit}")

    def newest_version(self, spark: SparkSession, table: Table) -> int:
        return int(self.history(spark, table, 1).collect()[0].version)

    def has_append_since(self, spark: SparkSession, table: Table, version: int) -> bool:
        """Whether that version of a table or a later one appended rows; also true for too many versions to check."""
        count = min(self.newest_version(spark, table) - version + 1, MAX_COMMITS_READ)
        commits = self.history(spark, table, count).select("operation").collect() if count > 0 else []
        return len(commits) == MAX_COMMITS_READ or any(commit.operation in _APPEND_OPERATIONS for commit in commits)

    def days(self, spark: SparkSession, table: Table) -> tuple[date, date] | None:
        """The first and the last day of a table that is partitioned by day; None without rows.

        Delta answers from the table's log, and reads no row, as long as the query has no condition.
        """
        assert table.day_column is not None
        day = self.read(spark.read, table).agg(F.min(table.day_column), F.max(table.day_column)).collect()[0]
        return None if day[0] is None else (day[0], day[1])

    @retry_on_conflict
    def append(self, rows: DataFrame, table: Table, **options: str) -> None:
        """Append the rows; retry a few times on a conflict, such as `maintain` changing the table's properties."""
        self._save(rows.write.format("delta").mode("append").options(**options), table)

    def overwrite(self, rows: DataFrame, table: Table) -> None:
        """Replace a table, including its schema and partitions, by these rows in one commit; create it if needed."""
        write = rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        self._save(write.partitionBy(*table.partitioned_by), table)

    def replace_rows(self, rows: DataFrame, table: Table) -> None:
        """Replace all rows of an existing table in one commit; its schema, comments and constraints stay."""
        self._save(rows.write.format("delta").mode("overwrite"), table)

    @retry_on_conflict
    def replace_where(self, rows: DataFrame, table: Table, condition: str) -> None:
        """Replace the rows of a table that satisfy a condition, as the new ones do, in one commit."""
        self._save(rows.write.format("delta").mode("overwrite").option("replaceWhere", condition), table)

    def _save(self, write: DataFrameWriter, table: Table) -> None:
        if self.warehouse is not None:
            write.save(self._folder(table.name))
        else:
            write.saveAsTable(self.sql_name(table.name))

    def folder_of(self, name: str) -> AnyPath:
        """The folder of a table in a warehouse; only for tables that are folders."""
        assert self.warehouse is not None
        return self.warehouse.absolute() / name

    def _folder(self, name: str) -> str:
        return str(self.folder_of(name))

    def _has_log(self, table: Table) -> bool:
        return (self.folder_of(table.name) / "_delta_log").is_dir()
