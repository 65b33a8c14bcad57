"""The SQL of the views of `sessionization/sql/views`, with what differs from tables to tables; without Spark."""

from collections.abc import Callable, Mapping, Sequence

from sessionization.durations import HOUR_MS
from sessionization.event_map.model import TITLE
from sessionization.spark.tables.schemas import HEARTBEAT_PROPERTY, LAST_ACTIVE_COLUMN
from sessionization.spark.tables.statements import fill_in, names_of, read_statement

VIEWS = names_of("views")
_SLOWEST_BATCH_MS = 10 * 60_000
_UNKNOWN_HEARTBEAT_MS = HOUR_MS
"""The interval that is assumed for tables whose job has not stored it yet."""


def session_view_sql(
    name: str,
    sql_name: Callable[[str], str] = str,
    heartbeat_ms: int = _UNKNOWN_HEARTBEAT_MS,
    labels: Sequence[str] = (),
    *,
    has_activity: bool = False,
) -> str:
    """The statement that creates a view for one Spark session alone, over the tables that `sql_name` names.

    `has_activity`: whether these have the columns for Activities.
    """
    statement = read_statement("views", name).replace(f"VIEW ${{schema}}.{name}", f"TEMPORARY VIEW {name}")
    return fill_in(statement, sql_name, **view_values(heartbeat_ms, labels, has_activity=has_activity))


def title_sql(labels: Sequence[str]) -> str:
    """The column `title` of tables with these label columns, or, where they lack it, a null."""
    return TITLE if TITLE in labels else "CAST(NULL AS string)"


def view_values(heartbeat_ms: int, labels: Sequence[str], *, has_activity: bool) -> dict[str, object]:
    """The values of the placeholders in views of tables with these label columns."""
    return {
        "heartbeat_window_s": _heartbeat_window_s(heartbeat_ms),
        "labels": "".join(f", `{name}`" for name in labels),
        "title": title_sql(labels),
        "last_active_at": LAST_ACTIVE_COLUMN.name if has_activity else "CAST(NULL AS timestamp)",
        "implied_starts": "implied_starts" if has_activity else "CAST(NULL AS bigint)",
    }


def stored_heartbeat_ms(properties: Mapping[str, str]) -> int:
    """The interval of heartbeats, from the properties of `sessions`."""
    stored = properties.get(HEARTBEAT_PROPERTY, "")
    return int(stored) if stored.isdigit() else _UNKNOWN_HEARTBEAT_MS


def _heartbeat_window_s(heartbeat_ms: int) -> int:
    """How long before the newest heartbeat every live session has had one, in whole seconds."""
    return -(-(4 * heartbeat_ms + _SLOWEST_BATCH_MS) // 1_000)
