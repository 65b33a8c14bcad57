"""A valid event as one JSON text, in which it comes to the operator."""

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.core.events import Activity, End, Event, Start
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.parse import EVENT_COLUMNS, LABELS


def pack_event(layout: StateLayout) -> Column:
    """Return the columns of a valid event (`event_types`) as one JSON text: an array, the labels last.

    PySpark would convert separate columns cell by cell, which costs the most.
    """
    fields = F.array(*(F.col(name).cast("string") for name in EVENT_COLUMNS))
    return F.to_json(F.concat(fields, LABELS) if layout.labels else fields)


def unpack_event(text: str, layout: StateLayout) -> tuple[str, Event]:
    """Read the device and the event that `pack_event` wrote."""
    (
        device_id, session_id, is_start, event_ms, foreground_s, account_id, platform, ingested_ms, *labels
    ) = orjson.loads(text)  # fmt: skip
    fields = layout.session_id_of(session_id), int(event_ms), platform, int(ingested_ms), account_id
    if is_start == "true":
        return device_id, Start(*fields, tuple(labels))
    if is_start is None:
        return device_id, Activity(*fields, tuple(labels))
    return device_id, End(*fields, None if foreground_s is None else int(foreground_s), tuple(labels))
