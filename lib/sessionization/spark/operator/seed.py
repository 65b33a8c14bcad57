"""The sessions of a grouping key from before a checkpoint, as one JSON text: the seed of its state."""

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.core.session_state import SessionState
from sessionization.spark.operator.stored_entries import STATE_SCHEMA, decode_entry


def pack_seed(after_ms: int) -> Column:
    """Aggregate a grouping key's entries into one JSON text.

    The rows have the columns `device_id`, `session_id` and those of `STATE_SCHEMA`.
    """
    entry = F.struct("device_id", "session_id", *STATE_SCHEMA.names)
    return F.to_json(F.struct(F.lit(after_ms).alias("after_ms"), F.collect_list(entry).alias("entries")))


def unpack_seed(text: str) -> tuple[int, dict[str, dict[int, SessionState]]]:
    """Read the text that `pack_seed` wrote: the instant, and sessions by device."""
    seed = orjson.loads(text)
    devices: dict[str, dict[int, SessionState]] = {}
    for row in seed["entries"]:
        entry = decode_entry(tuple(row.get(name) for name in STATE_SCHEMA.names))
        devices.setdefault(row["device_id"], {})[row["session_id"]] = entry
    return seed["after_ms"], devices
