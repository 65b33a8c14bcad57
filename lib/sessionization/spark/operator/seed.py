"""The sessions of a grouping key from before a checkpoint, as one JSON text: the seed of its state."""

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.core.events import SessionId
from sessionization.core.session_state import SessionState
from sessionization.spark.operator.stored_entries import STATE_SCHEMA, decode_entry


def pack_seed(after_ms: int) -> Column:
    """Aggregate a grouping key's entries into one JSON text.

    The column `text` has each as a JSON object of `device_id`, `session_id` and the fields of `STATE_SCHEMA`.
    """
    begin, end = F.lit(f'{{"after_ms":{after_ms},"entries":['), F.lit("]}")
    return F.concat(begin, F.concat_ws(",", F.collect_list("text")), end)


def unpack_seed(text: str) -> tuple[int, dict[str, dict[SessionId, SessionState]]]:
    """Read the text that `pack_seed` wrote: the instant, and sessions by device."""
    seed = orjson.loads(text)
    devices: dict[str, dict[SessionId, SessionState]] = {}
    for row in seed["entries"]:
        entry = decode_entry(tuple(row.get(name) for name in STATE_SCHEMA.names))
        devices.setdefault(row["device_id"], {})[row["session_id"]] = entry
    return seed["after_ms"], devices
