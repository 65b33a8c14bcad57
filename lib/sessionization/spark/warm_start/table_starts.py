"""Where a new checkpoint begins to read source tables: one version for both reading queries, stored before they start.

With `--starting-offsets earliest` none is stored. Each query then begins with the rows that a table has when it starts,
and goes on with later versions: all rows, whichever version it was (docs/adr/0046-delta-tables-as-a-source.md).
"""

import json
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.files import write_atomically
from sessionization.hadoop_path import AnyPath
from sessionization.settings.table_source_settings import TableSource
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.input.source_tables import Versions, newest_versions
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.schemas import RAW_EVENTS

_FILE = "table_starts.json"


def first_versions(context: JobContext) -> Versions:
    """The first versions of the source tables to read; Delta heeds them in a new checkpoint alone.

    A warm start that has taken over the tables and then failed keeps its versions.

    Raises `ConfigurationError` where a table does not reach as far as the tables of a warm start, and `CheckpointError`
    where the stored versions cannot be read.
    """
    checkpoint, source = context.checkpoint, context.settings.source
    assert isinstance(source, TableSource)
    file = checkpoint.folder / _FILE
    has_begun = checkpoint.is_used or not checkpoint.is_warm or read_checkpoint(checkpoint.folder).is_warm
    if has_begun and file.exists():
        return _read(file)
    if checkpoint.is_used:
        return {}
    if checkpoint.is_warm:
        # Without an archive, the seed has all that the source tables hold now.
        begins_at_the_end = source.accept_data_loss or not context.settings.archives
        versions = _ends(context) if begins_at_the_end else _after_the_archive(context)
    elif source.starting_offsets == "latest":
        versions = _ends(context)
    else:
        return {}
    write_atomically(file, json.dumps(versions))
    return versions


def _after_the_archive(context: JobContext) -> Versions:
    """Go on after the versions that `raw_events` shows."""
    ends, read = _ends(context), _last_read(context)
    for stream, version in sorted(read.items()):
        if version >= ends[stream]:
            msg = (
                f"--from-sessions: the table of {stream} does not reach version {version}, which was read: it was made "
                "anew; begin with a new --checkpoints folder and an empty location for the tables"
            )
            raise ConfigurationError(msg)
    starts = {stream: version + 1 if (version := read.get(stream, -1)) >= 0 else None for stream in ends}
    for stream, start in starts.items():
        if start is None:
            context.say(f"--from-sessions: the table of {stream} is read from its beginning: no version of it was read")
    return starts


def _ends(context: JobContext) -> dict[str, int]:
    """The versions that come next."""
    return {
        stream: version + 1 for stream, version in newest_versions(context.spark, context.settings.event_map).items()
    }


def _last_read(context: JobContext) -> dict[str, int]:
    """The newest version of each stream's table that `archive` had read to its end.

    Reads the last two days, and earlier ones for a stream that has no message there.
    """
    days = context.location.days(context.spark, RAW_EVENTS)
    if days is None:
        return {}
    of_tables = "offset IS NOT NULL AND partition IS NULL AND file IS NULL"
    rows = context.location.read(context.spark.read, RAW_EVENTS).where(of_tables)
    recent = _newest(rows.where(F.col("ingest_date") >= F.lit(days[1] - timedelta(days=1))))
    return recent if recent.keys() >= context.settings.event_map.streams.keys() else _newest(rows) | recent


def _newest(rows: DataFrame) -> dict[str, int]:
    return {row.stream: row.version for row in rows.groupBy("stream").agg(F.max("offset").alias("version")).collect()}


def _read(file: AnyPath) -> Versions:
    try:
        content: Versions = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        msg = f"{file} is not readable ({error}): restore it from a backup; without it rows would be read again"
        raise CheckpointError(msg) from error
    return content
