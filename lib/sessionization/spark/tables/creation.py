"""Creates the tables, and hands them over to another checkpoint."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import is_default
from sessionization.spark.tables.conflicts import retry_on_conflict
from sessionization.spark.tables.location import OWNER_PROPERTY, TableLocation
from sessionization.spark.tables.schemas import (
    ACTIVITY_COLUMNS,
    ACTIVITY_CONSTRAINTS,
    CONSTRAINT,
    HEARTBEAT_PROPERTY,
    LAST_ACTIVE_COLUMN,
    SESSION_CHANGES,
    SESSION_PREDICTIONS,
    SESSIONS,
    SKIPPED_COLUMN,
    STREAM_PROGRESS,
    TABLES,
    Column,
    Table,
)
from sessionization.spark.tables.statements import fill_in
from sessionization.sql_text import quoted_name

_PLATFORMS = "known_platform"
_LABEL_COMMENT = "as the event map says: of the Start, or of the End where the Start had none"


def refuse_missing_tables(
    spark: SparkSession, location: TableLocation, session_id_type: str = "bigint", tables: Sequence[Table] = TABLES
) -> None:
    """Check the tables to take over.

    Raises `ConfigurationError` where one is missing or has session ids of another type, and `CheckpointError` where one
    has the layout of another release.
    """
    if missing := location.missing(spark, tables):
        msg = (
            f"--from-sessions needs the tables of an earlier job: {location} lacks {', '.join(missing)}; "
            "leave it out for a first start, or give the location that they are in"
        )
        raise ConfigurationError(msg)
    location.refuse_other_layout(spark, tables)
    if (found := location.session_id_type(spark)) != session_id_type:
        msg = (
            f"--from-sessions: the session ids in {location} are of type {found}, and those of --events of type "
            f"{session_id_type}: give an event map with the session_id_type of these tables, or another location"
        )
        raise ConfigurationError(msg)


def take_over(spark: SparkSession, location: TableLocation, owner: str, tables: Sequence[Table] = TABLES) -> None:
    """Make `owner` the checkpoint that owns all tables. The previous owner is refused from then on."""
    for table in tables:
        if location.properties(spark, table).get(OWNER_PROPERTY) != owner:
            spark.sql(location.set_properties_sql(table, {OWNER_PROPERTY: owner}))


def create_tables(
    spark: SparkSession,
    location: TableLocation,
    *,
    owner: str,
    session_id_type: str | None = "bigint",
    tables: Sequence[Table] = TABLES,
) -> None:
    """Create the tables that are missing, and check that the others belong to the checkpoint `owner`.

    None for `session_id_type` means that all must exist.

    Creates one new table before the others: if two jobs start at the same moment, only one of them creates it, and the
    other is refused before it creates any table.

    Raises `ConfigurationError` where the tables cannot be created. Raises `CheckpointError` where a table belongs to
    another checkpoint, has the layout of another release, or is missing although its checkpoint has been used
    (there is no `session_id_type`).
    """
    first, *others = tables
    if session_id_type is not None:
        _create_or_check(spark, location, first, owner, session_id_type)
    else:
        others = list(tables)
    with ThreadPoolExecutor(len(tables)) as pool:
        checks = [pool.submit(_create_or_check, spark, location, table, owner, session_id_type) for table in others]
    for check in checks:
        check.result()


@retry_on_conflict
def fit_to_events(
    spark: SparkSession,
    location: TableLocation,
    events: EventMap,
    labels: Sequence[str],
    *,
    has_activity: bool = False,
) -> None:
    """Add the label columns, and those for Activities; drop constraints that knew two platforms, or no Activity.

    Of the label columns `sessions` comes last: one is a column of the tables once all have it.
    """
    _add_label_columns(spark, location, SESSION_CHANGES, labels)
    _add_label_columns(spark, location, SESSIONS, labels, ("_first_start", "_shown_end"))
    _add_columns(spark, location, STREAM_PROGRESS, added_counts(events, has_activity=has_activity))
    if has_activity:
        place = f" AFTER {SESSION_CHANGES.columns[-1].name}"
        _add_columns(spark, location, SESSION_CHANGES, (LAST_ACTIVE_COLUMN,), place)
    for table in () if is_default(events) else (SESSION_CHANGES, SESSION_PREDICTIONS):
        _drop_constraints(spark, location, table, (_PLATFORMS,))
    if has_activity:
        _drop_constraints(spark, location, SESSION_CHANGES, ACTIVITY_CONSTRAINTS)


def added_counts(events: EventMap, *, has_activity: bool) -> tuple[Column, ...]:
    """The columns of `stream_progress` for what the map skips, now or without `has_activity`, and for Activities."""
    skipped = (SKIPPED_COLUMN,) if events.skips(has_activity=False) else ()
    return (*skipped, *(ACTIVITY_COLUMNS if has_activity else ()))


def _drop_constraints(spark: SparkSession, location: TableLocation, table: Table, names: Iterable[str]) -> None:
    properties = location.properties(spark, table) if location.exists(spark, table) else {}
    for name in names:
        if f"{CONSTRAINT}{name}" in properties:
            spark.sql(f"ALTER TABLE {location.sql_name(table.name)} DROP CONSTRAINT {name}")


def _add_columns(
    spark: SparkSession, location: TableLocation, table: Table, columns: Sequence[Column], place: str = ""
) -> None:
    """Add the columns that a table lacks; without `place` as the last ones."""
    existing = location.read(spark.read, table).columns if columns else []
    missing = [column for column in columns if column.name not in existing]
    if missing:
        added = ", ".join(f"{column.name} {column.type} COMMENT '{column.comment}'{place}" for column in missing)
        spark.sql(f"ALTER TABLE {location.sql_name(table.name)} ADD COLUMNS ({added})")


def _add_label_columns(
    spark: SparkSession, location: TableLocation, table: Table, labels: Sequence[str], structs: Sequence[str] = ()
) -> None:
    """Add label columns that a table lacks, and fields of these names to some of its structs."""
    existing = location.read(spark.read, table).columns if labels else []
    missing = [name for name in labels if name not in existing]
    columns = [f"{quoted_name(name)} string COMMENT '{_LABEL_COMMENT}'" for name in missing]
    fields = [f"{struct}.{quoted_name(name)} string" for name in missing for struct in structs]
    if missing:
        spark.sql(f"ALTER TABLE {location.sql_name(table.name)} ADD COLUMNS ({', '.join(columns + fields)})")


@retry_on_conflict
def store_heartbeat(spark: SparkSession, location: TableLocation, heartbeat_ms: int) -> None:
    """Store the heartbeat interval in `sessions`, for the views; changes nothing where it is stored already."""
    if location.properties(spark, SESSIONS).get(HEARTBEAT_PROPERTY) != str(heartbeat_ms):
        spark.sql(location.set_properties_sql(SESSIONS, {HEARTBEAT_PROPERTY: str(heartbeat_ms)}))


def _create_or_check(
    spark: SparkSession,
    location: TableLocation,
    table: Table,
    owner: str,
    session_id_type: str | None,
) -> None:
    """Create a table, or check its owner; None for `session_id_type` means that it must exist."""
    if not location.exists(spark, table):
        if session_id_type is None:
            msg = (
                f"table {table.name} is missing in {location}, but the checkpoint says that it was written: "
                "bring the table back, or start with a new --checkpoints folder and an empty location for the tables"
            )
            raise CheckpointError(msg)
        create_table(spark, location, table, owner, session_id_type)
    advice = (
        "a second one would double every row; give that checkpoint's folder as --checkpoints, or another location for "
        "the tables"
    )
    location.check_owner(spark, table, owner, advice)


def create_table(
    spark: SparkSession, location: TableLocation, table: Table, owner: str, session_id_type: str = "bigint"
) -> None:
    """Create a table, unless it exists; `owner` is the checkpoint whose queries will write it."""
    statement = table.statement.replace("  session_id bigint", f"  session_id {session_id_type}")
    spark.sql(fill_in(statement, location.sql_name, checkpoint=owner))
