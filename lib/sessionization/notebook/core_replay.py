"""Events of devices through the rules, with timers and heartbeats, in simulated time."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from sessionization.core.events import Change, Event
from sessionization.core.heartbeat_grid import Firing, grid_for_key
from sessionization.core.session_rules import on_events, on_timer
from sessionization.core.session_state import Rules, SessionState, next_timer_ms

Row = dict[str, Any]
"""A change as a dictionary: the fields of `core.events.Change`, `device_id`, and the kind as `change`."""


def replay_devices(events: Mapping[str, Iterable[Event]], rules: Rules, *, every_ms: int, until_ms: int) -> list[Row]:
    """Apply the rules as a job with one device per key does.

    Args:
        events: by device; each is applied in the first micro-batch at or after its ingest time.
        rules: the rules in force.
        every_ms: the time from one micro-batch to the next.
        until_ms: the end of the simulated time (UTC milliseconds); nothing happens at it or later.

    Returns:
        The changes of one device after the other, in the order in which the job would write them.
    """
    return [
        change._asdict() | {"device_id": device_id, "change": str(change.kind)}
        for device_id, of_device in events.items()
        for change in _replay(device_id, of_device, rules, every_ms, until_ms)
    ]


def _replay(device_id: str, events: Iterable[Event], rules: Rules, every_ms: int, until_ms: int) -> list[Change]:
    grid = grid_for_key(device_id, rules.heartbeat_ms)
    waiting = deque(sorted(events, key=lambda event: event.ingested_ms))
    sessions: dict[int, SessionState] = {}
    timer_ms: int | None = None
    changes: list[Change] = []
    while waiting or timer_ms is not None:
        wake_ms = [waiting[0].ingested_ms] if waiting else []
        wake_ms += [] if timer_ms is None else [timer_ms]
        # The first micro-batch at or after the next event or timer.
        now_ms = -(-min(wake_ms) // every_ms) * every_ms
        if now_ms >= until_ms:
            break
        due: list[Event] = []
        while waiting and waiting[0].ingested_ms <= now_ms:
            due.append(waiting.popleft())
        if due:
            outcome = on_events(sessions, due, now_ms, rules)
            sessions = outcome.sessions
            changes += outcome.changes
        if timer_ms is not None and timer_ms <= now_ms:
            outcome = on_timer(sessions, Firing.from_timer(timer_ms, now_ms, grid), rules)
            sessions = outcome.sessions
            changes += outcome.changes
        timer_ms = next_timer_ms(sessions.values(), now_ms, grid, rules)
    return changes
