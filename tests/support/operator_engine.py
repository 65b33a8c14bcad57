"""Drives the processor in memory in Spark's order: all events of a micro-batch, then the due timers."""

import json
from collections import Counter
from collections.abc import Iterable

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.codec import OUTPUT_SCHEMA
from sessionization.spark.operator.processor import SessionProcessor
from sessionization.spark.operator.session_store import STATE_NAME

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=5_000, late_retention_ms=2_000, max_sessions_per_device=4)
NOW = grid_for_key("d", RULES.heartbeat_ms).after(1_000_000)
"""An instant of device d's grid; the next instants follow one second apart."""

_EventRow = Row("grouping_key", "event")
# The tester's map calls `exists` and `containsKey` inside the other calls, so those two are not counted.
_MAP_CALLS = ("iterator", "updateValue", "removeKey", "getValue", "clear")
_TIMER_CALLS = ("registerTimer", "deleteTimer", "listTimers")


def start(session_id: int, at_ms: int = NOW) -> tuple[str, Event]:
    return "d", Start(session_id, at_ms, Platform.PC, at_ms)


def end(session_id: int, at_ms: int = NOW) -> tuple[str, Event]:
    return "d", End(session_id, at_ms, Platform.PC, at_ms, foreground_s=3)


class Engine:
    """A processor with its state, its timers and a count of its state calls."""

    def __init__(self, rules: Rules, device_groups: int | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self.processor = SessionProcessor(StateLayout(device_groups), RulesInForce(rules))
        self.tester = TwsTester(self.processor, timeMode="ProcessingTime")
        state = self.processor._store
        for name in _MAP_CALLS:
            self._count(state._sessions if device_groups is None else state._buckets, name)
        for name in _TIMER_CALLS:
            self._count(self.processor._handle, name)

    def micro_batch(self, now_ms: int, events: Iterable[tuple[str, Event]], key_of=lambda device_id: device_id):
        """Run a micro-batch and return its output rows as dictionaries; `key_of` replaces Spark's grouping."""
        self.calls.clear()
        # The tester's own setProcessingTime would fire the timers before the events.
        self.tester._currentProcessingTimeMs = now_ms
        rows: dict[str, list[Row]] = {}
        for device_id, event in events:
            rows.setdefault(key_of(device_id), []).append(event_row(key_of(device_id), device_id, event))
        output = [row for key, key_rows in rows.items() for row in self.tester.test(key, key_rows)]
        output += self.tester._handleExpiredTimers()
        output_rows = [
            dict(zip(OUTPUT_SCHEMA.names, values, strict=True)) for row in output for values in zip(*row, strict=True)
        ]
        self.entries = {row["device_id"]: row["entries"] for row in output_rows if row["entries"] is not None}
        return [row for row in output_rows if row["entries"] is None]

    def timers(self, key: str) -> list[int]:
        return sorted(self.tester.handle._timers.listTimers(key))

    def state(self, key: str) -> dict[tuple, tuple]:
        return self.tester.peekMapState(STATE_NAME, key)

    def _count(self, target: object, name: str) -> None:
        original = getattr(target, name)

        def counted(*args, **kwargs):
            self.calls[name] += 1
            return original(*args, **kwargs)

        setattr(target, name, counted)


def event_row(key: str, device_id: str, event: Event) -> Row:
    """Build the row that `pack_event` writes: every value that is not null is text."""
    is_start = isinstance(event, Start)
    foreground_s = None if is_start else event.foreground_s
    values = (
        device_id, event.session_id, is_start, event.at_ms, foreground_s, event.account_id, event.platform.value,
        event.ingested_ms,
    )  # fmt: skip
    texts = [
        json.dumps(value) if isinstance(value, bool) else value if value is None else str(value) for value in values
    ]
    return _EventRow(key, json.dumps(texts))
