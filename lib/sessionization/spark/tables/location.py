"""Where the tables are, and how they are read, appended to and locked there."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming import DataStreamReader

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.say import Say
from sessionization.spark.checkpoint import folder_lock
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.schemas import RAW_EVENTS, SESSION_CHANGES, SESSIONS, Table

OWNER_PROPERTY = "sessionization.checkpoint"
"""Table property that names the checkpoint whose queries write the table."""

_COMMITS_LOOKED_AT = 100
_APPENDS = ("WRITE", "STREAMING UPDATE")
_ONE_OF_EACH_QUERY = (SESSION_CHANGES, SESSIONS, RAW_EVENTS)


class HasTableLocation(Protocol):
    """Settings that say where the tables are, checked by `location.check_table_location`."""

    @property
    def warehouse(self) -> Path | None: ...

    @property
    def catalog(self) -> str | None: ...

    @property
    def schema_name(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class TableLocation:
    """Where the tables are: folders of a warehouse, or tables of a Unity Catalog schema."""

    warehouse: Path | None = None
    catalog: str | None = None
    schema: str | None = None

    @classmethod
    def of(cls, settings: HasTableLocation) -> Self:
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
            msg = f"{self} does not hold {', '.join(names)}: give the location of the sessionize job's tables, or start it first"
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
        advice = (
            f"--checkpoints {checkpoints} is of another job: give the folder of this one's job, or that job's tables"
        )
        for table in _ONE_OF_EACH_QUERY:
            self.check_owner(spark, table, owner, advice)

    def check_owner(self, spark: SparkSession, table: Table, owner: str, advice: str) -> None:
        """Raises `CheckpointError`, with what to do, where the checkpoint `owner` does not write the table."""
        found = self.owner(spark, table)
        if found != owner:
            msg = f"table {table.name} in {self} is written by another checkpoint ({found}, not {owner}): {advice}"
            raise CheckpointError(msg)

    @contextmanager
    def lock_for_maintenance(self, say: Say, stop: threading.Event | None = None) -> Iterator[None]:
        """Where the tables are folders, keep out who else writes them beside the stream while the body runs.

        There a commit may replace that of another process. The sessionize job is kept out by its checkpoint, but for the moment
        in which it takes the tables over, when it holds them itself. A folder
        without tables is left as it is, and not held: who must not go on there when somebody makes them asks
        `require_folder` before.

        Raises as `lock_folder` does.
        """
        if self.warehouse is None or not self._has_log(SESSION_CHANGES):
            yield
            return
        with folder_lock.lock_folder(self.warehouse, say, stop, locked_as=folder_lock.TABLES):
            yield

    @contextmanager
    def lock_for_stream(self, say: Say, stop: threading.Event | None = None) -> Iterator[None]:
        """Where the tables are folders, let one sessionize job write them, whatever checkpoint another one has.

        A job that has hung does not notice that a warm start has taken the tables over. Raises as `lock_folder` does.
        """
        if self.warehouse is None:
            yield
            return
        with folder_lock.lock_folder(self.warehouse, say, stop, locked_as=folder_lock.STREAM):
            yield

    def read(self, reader: DataFrameReader | DataStreamReader, table: Table) -> DataFrame:
        """Read a table as a batch (`spark.read`) or as a stream (`spark.readStream`)."""
        if self.warehouse is not None:
            return reader.format("delta").load(self._folder(table.name))
        return reader.table(self.sql_name(table.name))

    def append_once(self, rows: DataFrame, table: Table, *, writer_id: str, batch_id: int) -> None:
        """Append a micro-batch's rows; a second call for the same writer and batch appends nothing."""
        self.append(rows, table, txnAppId=writer_id, txnVersion=str(batch_id), userMetadata=f"{writer_id} {batch_id}")

    def newest_appended_batch(self, spark: SparkSession, table: Table, writer_id: str) -> int:
        """The newest micro-batch that a writer has appended, -1 where the table's last commits name none."""
        commits = self.delta_table(spark, table).history(_COMMITS_LOOKED_AT).select("userMetadata").collect()
        named = ((row.userMetadata or "").rpartition(" ") for row in commits)
        return max((int(batch_id) for name, _, batch_id in named if name == writer_id), default=-1)

    def has_append_since(self, spark: SparkSession, table: Table, version: int) -> bool:
        """Whether that version of a table or a later one appended rows; also where there are too many to look at each."""
        found = self.delta_table(spark, table)
        newest = found.history(1).collect()[0].version
        count = min(newest - version + 1, _COMMITS_LOOKED_AT)
        commits = found.history(count).select("operation").collect() if count > 0 else []
        return len(commits) == _COMMITS_LOOKED_AT or any(commit.operation in _APPENDS for commit in commits)

    @retry_on_conflict
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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
