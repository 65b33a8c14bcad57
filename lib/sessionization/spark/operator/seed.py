"""The sessions of a grouping key from before a checkpoint, as one JSON text: the seed of its state."""

import orjson
from pyspark.sql import Column
from pyspark.sql import functions as F

from sessionization.core.events import SessionId
from sessionization.core.session_state import SessionState
from sessionization.spark.operator.stored_entries import decode_fields


def pack_seed(after_ms: int) -> Column:
    """Aggregate a grouping key's entries into one JSON text.

    The column `text` has each as a JSON object of `device_id`, `session_id` and the fields that `decode_fields` reads.
    """
    begin, end = F.lit(f'{{"after_ms":{after_ms},"entries":['), F.lit("]}")
    return F.concat(begin, F.concat_ws(",", F.collect_list("text")), end)


def unpack_seed(text: str, label_count: int = 0) -> tuple[int, dict[str, dict[SessionId, SessionState]]]:
    """Read the text that `pack_seed` wrote: the instant, and sessions by device."""
    seed = orjson.loads(text)
    devices: dict[str, dict[SessionId, SessionState]] = {}
    for row in seed["entries"]:
        devices.setdefault(row["device_id"], {})[row["session_id"]] = decode_fields(row, label_count)
    return seed["after_ms"], devices
