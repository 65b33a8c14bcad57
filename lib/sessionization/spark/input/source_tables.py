"""Messages from the Delta tables that an event map names: read as a stream, or as they are now."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamReader
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    FloatType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from sessionization.errors import ConfigurationError
from sessionization.event_map.field_path import Names, tree_of, written
from sessionization.event_map.model import EventMap
from sessionization.hadoop_path import AnyPath, parse_location
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.settings.table_source_settings import TableSource
from sessionization.spark.checkpoint.spark_logs import read_started_batch
from sessionization.spark.engine.error_text import root_cause
from sessionization.sql_text import quoted_name, quoted_path

Versions = Mapping[str, int | None]
"""Versions of tables by stream."""

_MAY_BEGIN_AFTER_THE_END = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"
"""Lets a stream start at the version after the newest one. It holds for streams without a change data feed too."""
_EXACT = "decimal(38,9)"
"""A floating-point number is written with its digits: JSON would have an exponent, which no format of a time has."""
_GO_ON = "begin a new --checkpoints folder with --from-sessions --accept-data-loss (docs/runbook.md, 'A source table')"
_REMEDIES = (
    (
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES|DELTA_SOURCE_IGNORE_DELETE",
        "rows of a source table were changed or deleted; nothing is lost: start once with --accept-data-loss, which "
        "passes over such commits, also over rows that they added (docs/runbook.md, 'A source table')",
    ),
    (
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE|DELTA_SCHEMA_CHANGED",
        f"a column of a source table was dropped or renamed, or has another type: correct --events, and {_GO_ON}",
    ),
    (
        r"DIFFERENT_DELTA_TABLE_READ|_delta_log does not exist|TABLE_OR_VIEW_NOT_FOUND|DELTA_(?:SCHEMA_NOT_SET|"
        r"TABLE_NOT_FOUND|PATH_DOES_NOT_EXIST|MISSING_DELTA_TABLE)",
        "a source table was dropped, or made anew: bring it back, or begin with a new --checkpoints folder and an "
        "empty location for the tables (docs/runbook.md, 'A source table')",
    ),
    (
        r"DELTA_LOG_FILE_NOT_FOUND|DELTA_VERSION\w*|FILE_NOT_EXIST|FileNotFoundException",
        f"a source table's history was deleted before it was read: {_GO_ON}",
    ),
)
_OF_OTHER_FILES = "query rollup stopped|the state cannot be loaded"


def stream_tables(
    spark: SparkSession, settings: SessionizeSettings, most_bytes: int | None, starts: Versions
) -> DataFrame:
    """Stream the rows of the tables from the position in the query's checkpoint.

    Args:
        spark: the session.
        settings: the event map, and the source.
        most_bytes: how much a micro-batch takes of the tables together; each gives one file at least.
        starts: for a new checkpoint the first version of each table whose rows are read; without one, the rows that
            it has now come first.

    Returns:
        The columns of `as_messages`. A row without an ingest time has that of 1970.
    """
    events, source = settings.event_map, settings.source
    assert isinstance(source, TableSource)
    if starts:
        spark.conf.set(_MAY_BEGIN_AFTER_THE_END, "true")
    messages = []
    for stream in in_order(events):
        reader = spark.readStream.option("skipChangeCommits", str(source.accept_data_loss).lower())
        if most_bytes is not None:
            reader = reader.option("maxBytesPerTrigger", f"{max(1, most_bytes // len(events.streams))}b")
        if (version := starts.get(stream)) is not None:
            reader = reader.option("startingVersion", version)
        messages.append(as_messages(_load(reader, _table_of(events, stream)), stream, events))
    ingested_at = F.coalesce("ingested_at", F.timestamp_millis(F.lit(0)))
    return reduce(DataFrame.unionByName, messages).withColumn("ingested_at", ingested_at)


def read_tables(spark: SparkSession, events: EventMap, versions: Versions | None = None) -> DataFrame:
    """The messages that the tables hold now, or in these versions, in the columns of `as_messages`."""
    messages = []
    for stream in in_order(events):
        version = (versions or {}).get(stream)
        reader = spark.read if version is None else spark.read.option("versionAsOf", version)
        messages.append(as_messages(_load(reader, _table_of(events, stream)), stream, events))
    return reduce(DataFrame.unionByName, messages)


def in_order(events: EventMap) -> list[str]:
    """The streams in the order in which a query reads their tables, which must not depend on a map's order."""
    return sorted(events.streams)


def as_messages(rows: DataFrame, stream: str, events: EventMap) -> DataFrame:
    """A message for each row of a stream's table: the content of its `value`, or the row's used fields as JSON.

    Returns:
        `stream`, `partition` (null), `offset` (null), `file` (null), `ingested_at`, `value` binary, `value_bytes`.
    """
    names = events.value_of(stream)
    if names is None:
        value = F.to_json(F.struct(*_fields(rows.schema, None, tree_of(events.paths(stream)))))
    else:
        value = _column(names)
        if isinstance(_type_of(rows.schema, names), VariantType):
            value = F.to_json(value)
    ingested_at = events.ingested_at_of(stream)
    assert ingested_at is not None
    return rows.select(
        F.lit(stream).alias("stream"),
        F.lit(None).cast("int").alias("partition"),
        F.lit(None).cast("bigint").alias("offset"),
        F.lit(None).cast("string").alias("file"),
        _column(ingested_at).alias("ingested_at"),
        value.cast("binary").alias("value"),
    ).withColumn("value_bytes", F.octet_length("value").cast("bigint"))


def check_source_tables(spark: SparkSession, settings: SessionizeSettings) -> None:
    """Raises `ConfigurationError` where a table cannot be read as a stream, or lacks what the event map names."""
    for stream in in_order(settings.event_map):
        table = _table_of(settings.event_map, stream)
        place = f"--events {settings.events}: streams.{stream}.table {table}"
        try:
            schema = _load(spark.readStream, table).schema
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError, ValueError) as error:
            cause = root_cause(str(error))
            msg = f"{place} cannot be read as a stream: {cause}: name a Delta table that this job's user may read"
            raise ConfigurationError(msg) from error
        if mistake := _mistake(schema, stream, settings.event_map):
            msg = f"{place} {mistake}"
            raise ConfigurationError(msg)


def describe_source_tables(spark: SparkSession, settings: SessionizeSettings) -> str:
    """As `check_source_tables`; returns how far the tables are."""
    check_source_tables(spark, settings)
    versions = newest_versions(spark, settings.event_map)
    return ", ".join(f"{stream} is at version {version:,} of its table" for stream, version in versions.items())


def newest_versions(spark: SparkSession, events: EventMap) -> dict[str, int]:
    """The newest version of each stream's table."""
    return {
        stream: int(spark.sql(f"DESCRIBE HISTORY {sql_name(events, stream)} LIMIT 1").collect()[0].version)
        for stream in events.stream_names
    }


def sql_name(events: EventMap, stream: str) -> str:
    """The name of a stream's table in SQL."""
    table = _table_of(events, stream)
    return table if isinstance(table, str) else f"delta.{quoted_name(str(table))}"


def versions_read(query: AnyPath, batch_id: int, *, streams: Sequence[str]) -> dict[str, int]:
    """For each stream `in_order` the newest version that a query had read to its end with a micro-batch, or -1.

    -1 also while it reads the rows that the table had at the query's first start.
    """
    sources: tuple[Any, ...] = read_started_batch(query, batch_id).sources
    return {
        stream: -1 if position is None or position["isStartingVersion"] else int(position["reservoirVersion"]) - 1
        for stream, position in zip(streams, sources, strict=False)  # other sources come after these
    }


def remedy_for_tables(settings: SessionizeSettings, causes: Iterable[str]) -> str | None:
    """What to do where a query ended because of what was done to a source table; None for other causes."""
    if not isinstance(settings.source, TableSource):
        return None
    ours = [cause for cause in causes if not re.search(_OF_OTHER_FILES, cause)]
    return next((remedy for pattern, remedy in _REMEDIES for cause in ours if re.search(pattern, cause)), None)


def _table_of(events: EventMap, stream: str) -> str | AnyPath:
    """The name of a stream's table, or its folder."""
    table = events.streams[stream].table or ""
    return parse_location(table).absolute() if "/" in table else table


def _load(reader: DataFrameReader | DataStreamReader, table: str | AnyPath) -> DataFrame:
    return reader.table(table) if isinstance(table, str) else reader.format("delta").load(str(table))


def _mistake(schema: StructType, stream: str, events: EventMap) -> str | None:
    """What is wrong with a table, if anything is."""
    names, ingested_at = events.value_of(stream), events.ingested_at_of(stream)
    assert ingested_at is not None
    needed = [ingested_at, *(events.paths(stream) if names is None else [names])]
    if missing := [written(path) for path in needed if _type_of(schema, path) is None]:
        return f"has no {', '.join(missing)}: there are {', '.join(schema.names)}"
    if not isinstance(_type_of(schema, ingested_at), TimestampType):
        return f"has no timestamp in {written(ingested_at)}: ingested_at needs a column of type TIMESTAMP"
    if names is not None and not isinstance(_type_of(schema, names), StringType | BinaryType | VariantType):
        return f"has no messages in {written(names)}: value needs a column of type STRING, BINARY or VARIANT"
    return None


def _fields(struct: StructType, parent: Column | None, tree: Mapping[str, Any]) -> list[Column]:
    """The fields of a struct that are used, with the names of the map; what is no struct is taken whole."""
    fields = []
    for name, below in tree.items():
        column = F.col(quoted_name(name)) if parent is None else parent.getField(name)
        match _field_type(struct, name):
            case StructType() as inner if below:
                column = F.struct(*_fields(inner, column, below))
            case DoubleType() | FloatType():
                column = column.try_cast(_EXACT)
        fields.append(column.alias(name))
    return fields


def _type_of(schema: DataType, path: Names) -> DataType | None:
    """The type of what is at a path, where a map or a variant may hold the rest of it; None where there is nothing."""
    found: DataType | None = schema
    for name in path:
        if not isinstance(found, StructType):
            break
        found = _field_type(found, name)
    return found


def _field_type(struct: StructType, name: str) -> DataType | None:
    """The type of a field, whose name Spark finds in any case."""
    return next((field.dataType for field in struct.fields if field.name.lower() == name.lower()), None)


def _column(path: Names) -> Column:
    return F.col(quoted_path(path))
