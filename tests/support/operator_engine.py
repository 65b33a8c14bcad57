"""Drives the processor in memory in Spark's order: all events of a micro-batch, then the due timers."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Row

from sessionization.core.events import Activity, End, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from sessionization.core.session_state import Rules, RulesInForce
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.operator.output_rows import OUTPUT_SCHEMA
from sessionization.spark.operator.processor import SessionProcessor
from sessionization.spark.operator.stored_entries import STATE_SCHEMA
from tests.support.oracle import Counted
from tests.support.oracle_columns import COLUMNS, day

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=5_000, late_retention_ms=2_000, max_sessions_per_device=4)
NOW = grid_for_key("d", RULES.heartbeat_ms).after(1_000_000)
"""An instant of device d's grid; the next instants follow one second apart."""

_EventRow = Row("grouping_key", "event")


def start(session_id: int, at_ms: int = NOW) -> tuple[str, Event]:
    return "d", Start(session_id, at_ms, Platform.PC, at_ms)


def end(session_id: int, at_ms: int = NOW) -> tuple[str, Event]:
    return "d", End(session_id, at_ms, Platform.PC, at_ms, foreground_s=3)


def random_events(
    rng: random.Random, now_ms: int, label_count: int = 0, kinds: Sequence[type[Event]] = (Start, End)
) -> list[tuple[str, Event]]:
    """Up to four events of three devices; few ids and few instants make events collide."""
    events: list[tuple[str, Event]] = []
    for _ in range(rng.randrange(5)):
        device_id, kind, session_id = f"d{rng.randrange(3)}", rng.choice(kinds), rng.randrange(6)
        at_ms, platform = now_ms - rng.randrange(0, 4_000, 500), rng.choice(list(Platform))
        event = kind(session_id, at_ms, platform, now_ms, rng.choice([None, "ann"]))
        labels = tuple(rng.choice([None, "chess", '"],[{é']) for _ in range(label_count))
        events.append((device_id, replace(event, labels=labels)))
    return events


def changes_of(rows: Iterable[dict[str, Any]], label_count: int = 0) -> Counted:
    """The changes among output rows, in the columns of `oracle.change_row`."""
    names = COLUMNS["session_changes"][:-1]
    nulls = json.dumps([None] * label_count)
    return Counter(
        (*(row[name] for name in names), day(row["processed_ms"]), *json.loads(row["labels"] or nulls))
        for row in rows
        if row["change"]
    )


class Handle:
    """Stands for Spark's handle: a map and timers of the key that is `key`. It counts the calls to both."""

    def __init__(self) -> None:
        self.key = ""
        self.calls: Counter[str] = Counter()
        self.maps: defaultdict[str, dict[tuple, tuple]] = defaultdict(dict)
        self.timers: defaultdict[str, set[int]] = defaultdict(set)

    def getMapState(self, name: str, key_schema: Any, value_schema: Any) -> "MapState":  # noqa: ARG002, N802
        return MapState(self, len(value_schema.fields))

    def registerTimer(self, expiry_ms: int) -> None:  # noqa: N802
        self.calls["registerTimer"] += 1
        self.timers[self.key].add(expiry_ms)


@dataclass
class MapState:
    """Stands for the map state: what is read is a snapshot, and a value has all fields of its schema."""

    handle: Handle
    fields: int

    def iterator(self) -> Iterator[tuple[tuple, tuple]]:
        self.handle.calls["iterator"] += 1
        return iter(list(self.handle.maps[self.handle.key].items()))

    def getValue(self, key: tuple) -> tuple | None:  # noqa: N802
        self.handle.calls["getValue"] += 1
        return self.handle.maps[self.handle.key].get(key)

    def updateValue(self, key: tuple, value: tuple) -> None:  # noqa: N802
        assert len(value) == self.fields
        self.handle.calls["updateValue"] += 1
        self.handle.maps[self.handle.key][key] = value

    def removeKey(self, key: tuple) -> None:  # noqa: N802
        self.handle.calls["removeKey"] += 1
        del self.handle.maps[self.handle.key][key]


@dataclass
class Timer:
    """Stands for the clock of a micro-batch and for a timer that has come."""

    now_ms: int
    expiry_ms: int = 0

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self.now_ms

    def getExpiryTimeInMs(self) -> int:  # noqa: N802
        return self.expiry_ms


class Engine:
    """A processor with its state, its timers and a count of its state calls."""

    def __init__(self, rules: Rules, device_groups: int | None = None, labels: tuple[str, ...] = ()) -> None:
        self.handle = Handle()
        self.processor = SessionProcessor(StateLayout(device_groups, labels=labels), RulesInForce(rules))
        self.processor.init(self.handle)
        self.calls = self.handle.calls

    def go_on_with(self, labels: tuple[str, ...]) -> None:
        """Begin again with more label columns; Spark reads a field that a value was stored without as null."""
        layout = replace(self.processor.layout, labels=labels)
        self.processor = SessionProcessor(layout, self.processor.in_force)
        self.processor.init(self.handle)
        for entries in self.handle.maps.values() if not layout.has_groups else ():
            for key, value in entries.items():
                entries[key] = (*value, *(None,) * (len(STATE_SCHEMA) + 1 - len(value)))

    def begin_with(self, key: str, seed: str) -> None:
        self.handle.key = key
        self.processor.handleInitialState((key,), Row(grouping_key=key, seed=seed), Timer(0))

    def micro_batch(
        self,
        now_ms: int,
        events: Iterable[tuple[str, Event]],
        key_of: Callable[[str], str] = lambda device_id: device_id,
    ) -> list[dict[str, Any]]:
        """Run a micro-batch and return its output rows as dictionaries; `key_of` replaces Spark's grouping."""
        self.calls.clear()
        rows: dict[str, list[Row]] = {}
        for device_id, event in events:
            rows.setdefault(key_of(device_id), []).append(event_row(key_of(device_id), device_id, event))
        output: list[Row] = []
        for self.handle.key, key_rows in rows.items():
            output += self.processor.handleInputRows((self.handle.key,), iter(key_rows), Timer(now_ms))
        due = [(ms, key) for key, timers in self.handle.timers.items() for ms in timers if ms <= now_ms]
        for expiry_ms, self.handle.key in sorted(due):
            timer = Timer(now_ms, expiry_ms)
            output += self.processor.handleExpiredTimer((self.handle.key,), timer, timer)
            self.handle.timers[self.handle.key].remove(expiry_ms)
        output_rows = [
            dict(zip(OUTPUT_SCHEMA.names, values, strict=True)) for row in output for values in zip(*row, strict=True)
        ]
        self.entries = {row["device_id"]: row["entries"] for row in output_rows if row["entries"] is not None}
        return [row for row in output_rows if row["entries"] is None]

    def timers(self, key: str) -> list[int]:
        return sorted(self.handle.timers[key])

    def state(self, key: str) -> dict[tuple, tuple]:
        return self.handle.maps[key]


def event_row(key: str, device_id: str, event: Event) -> Row:
    """Build the row that `pack_event` writes: every value that is not null is text."""
    is_start = None if isinstance(event, Activity) else isinstance(event, Start)
    foreground_s = event.foreground_s if isinstance(event, End) else None
    values = (
        device_id, event.session_id, is_start, event.at_ms, foreground_s, event.account_id, event.platform.value,
        event.ingested_ms, *event.labels,
    )  # fmt: skip
    texts = [
        json.dumps(value) if isinstance(value, bool) else value if value is None else str(value) for value in values
    ]
    return _EventRow(key, json.dumps(texts))
