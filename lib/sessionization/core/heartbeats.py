"""The heartbeats (rule T2) of many live sessions at once, column by column: their rows are most of all changes."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import compress
from typing import Any

from sessionization.core.events import ChangeKind
from sessionization.core.heartbeat_grid import Firing
from sessionization.core.session_state import Live

LIVE_COLUMNS = (
    "device_id",
    "session_id",
    *(field.name for field in fields(Live) if field.name not in {"labels", "signs"}),
)
"""The columns of live sessions, without those that a heartbeat does not have."""


def heartbeats(live: Mapping[str, Sequence[Any]], firing: Firing) -> dict[str, Sequence[Any]]:
    """Return the heartbeats that `session_rules.on_timer` emits for these sessions, none of which times out.

    Args:
        live: `LIVE_COLUMNS` by name, of sessions of any devices, and with signs of life `last_active_ms`. The values at
            one position belong to one session.
        firing: the timer that fires.

    Returns:
        By name `device_id` and the fields of `Change` that a heartbeat has; `kind` is named `change`, as the column.
    """
    beats = firing.beats(live["opened_ms"])
    if 0 in beats:
        live = {name: list(compress(column, beats)) for name, column in live.items()}
        beats = [beat for beat in beats if beat]
    count, opened = len(beats), live["opened_ms"]
    return {name: column for name, column in live.items() if name != "opened_ms"} | {
        "change": (ChangeKind.HEARTBEAT,) * count,
        "revision": (0,) * count,
        "duration_ms": [firing.now_ms - opened_ms for opened_ms in opened],
        "beat": beats,
        "missed_beats": firing.missed_beats(beats),
        "due_ms": (firing.due_ms,) * count,
        "processed_ms": (firing.now_ms,) * count,
    }
