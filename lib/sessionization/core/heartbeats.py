"""The heartbeats (rule T2) of many live sessions at once, column by column: their rows are most of all changes."""

from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

from sessionization.core.events import ChangeKind
from sessionization.core.heartbeat_grid import Firing


class LiveSessions(NamedTuple):
    """Live sessions of any devices. The values at one position of the columns belong to one session."""

    device_id: Sequence[str]
    session_id: Sequence[int]
    account_id: Sequence[str | None]
    platform: Sequence[str]
    started_ms: Sequence[int]
    opened_ms: Sequence[int]


def heartbeats(live: LiveSessions, firing: Firing) -> dict[str, Sequence[Any]]:
    """Return the heartbeats that `session_rules.on_timer` emits for these sessions, none of which times out.

    The keys are `device_id`, and the fields of `Change` that a heartbeat has; `kind` is named `change`, as the column.
    """
    beats = firing.beats(live.opened_ms)
    if 0 in beats:
        live = LiveSessions._make(list(compress(column, beats)) for column in live)
        beats = [beat for beat in beats if beat]
    count = len(beats)
    return {
        "device_id": live.device_id,
        "session_id": live.session_id,
        "account_id": live.account_id,
        "platform": live.platform,
        "change": (ChangeKind.HEARTBEAT,) * count,
        "revision": (0,) * count,
        "started_ms": live.started_ms,
        "duration_ms": [firing.now_ms - opened_ms for opened_ms in live.opened_ms],
        "beat": beats,
        "missed_beats": firing.missed_beats(beats),
        "due_ms": (firing.due_ms,) * count,
        "processed_ms": (firing.now_ms,) * count,
    }
