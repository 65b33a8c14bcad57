"""Computes what every table must hold after a run, from the job's input and checkpoints alone.

Spark's logs say which files each micro-batch read, and its clock. The contract says what the lines mean. The slow
reference implementation of the rules computes the changes.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sessionization.core.events import Change, ChangeKind, Event
from sessionization.core.session_state import Rules
from tests.support.checkpoints import Batch, batches_of, path_of
from tests.support.grouping import bucket_of, group_of
from tests.support.messages import Files, Message, Source
from tests.support.oracle_columns import ACTIVITY_COUNTS, COLUMNS, Row, change_row, day, status_of
from tests.support.reference import Reference
from tests.support.reference_device import Device, entries_of
from tests.support.reference_sessions import SessionRow, session_rows
from tests.support.wire import DEFAULT, Fields, label_paths, read, skips

Counted = Counter[Any]
"""The number of times that each row occurs; for very many rows, hashes replace the rows."""


@dataclass
class Rows:
    """The rows of one table: of committed micro-batches, and of a started one, which are all there or all missing."""

    certain: Counted = field(default_factory=Counter)
    uncommitted: Counted = field(default_factory=Counter)


@dataclass(frozen=True)
class Measured:
    """The inputs of the measured columns in a micro-batch's row of `stream_progress`.

    `has_clock` is true if its rows have the micro-batch's clock.
    """

    ingested_ms: list[int] = field(default_factory=list)
    due_ms: list[int] = field(default_factory=list)
    has_clock: bool = False
    state_rows_before: range = range(0)


@dataclass
class Oracle:
    """The tables as they must be, and the state after the last committed micro-batch.

    `changes` holds the changes of every micro-batch by its clock, without heartbeats. `newest_ms` is the newest clock
    of a micro-batch with changes, including heartbeats. `remembered` is the state after the last micro-batch. `files`
    holds the files that each query has read. `digest` replaces rows where they are counted: a `hash` takes a fraction
    of the memory. `groups` is the job's `--device-groups`, `events` the content of its event map. `has_activity`: the
    job has an inactivity timeout.
    """

    digest: Callable[[Row], Any] = tuple
    groups: int | None = None
    events: Fields = field(default_factory=lambda: DEFAULT)
    has_activity: bool = False

    tables: dict[str, Rows] = field(default_factory=lambda: {name: Rows() for name in COLUMNS})
    changes: dict[int, list[tuple[str, Change]]] = field(default_factory=dict)
    newest_ms: int = 0
    remembered: list[Device] = field(default_factory=list)
    taken_over_ms: int = -1
    measured: dict[tuple[str, int], Measured] = field(default_factory=dict)
    entries: set[tuple[str, int, str]] = field(default_factory=set)
    timers: dict[str, int] = field(default_factory=dict)
    files: dict[str, list[Path]] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns of title and kept values."""
        return tuple(label_paths(self.events))

    def columns_of(self, table: str) -> tuple[str, ...]:
        """`COLUMNS` of a table, and what the event map and the timeout add."""
        if table == "stream_progress":
            skipped = ("skipped",) if skips(self.events, has_activity=False) else ()
            return (*COLUMNS[table], *skipped, *(ACTIVITY_COUNTS if self.has_activity else ()))
        return (*COLUMNS[table], *(self.labels if table in {"session_changes", "sessions"} else ()))

    def read(self, message: Message) -> tuple[str, Event] | str | None:
        """What a message means (`wire.read`)."""
        return read(message.stream, message.value, message.ingested_ms, self.events, has_activity=self.has_activity)

    def counted(self, rows: Iterable[Row]) -> Counted:
        return Counter(map(self.digest, rows))

    def add(self, table: str, batch: Batch, rows: Iterable[Row]) -> None:
        """Add the rows that a micro-batch writes into a table."""
        table_rows = self.tables[table]
        (table_rows.certain if batch.is_committed else table_rows.uncommitted).update(map(self.digest, rows))

    def add_former(self, former: "Oracle") -> None:
        """Add the committed rows of another checkpoint, which was then lost.

        Its rows of `stream_progress` are left out: the new checkpoint numbers micro-batches from 0.
        """
        assert not any(rows.uncommitted for rows in former.tables.values())
        assert not self.changes.keys() & former.changes.keys()
        for table in ("session_changes", "raw_events", "quarantine"):
            self.tables[table].certain.update(former.tables[table].certain)
        self.changes |= former.changes

    def take_state_of(self, reference: Reference) -> None:
        """Take the entries, and of each grouping key the first timer."""
        self.entries = {
            (device.device_id, session_id, status_of(entry))
            for device in reference.devices()
            for session_id, entry in entries_of(device, reference.rules).items()
        }
        self.timers = {key: min(timers_ms) for key, timers_ms in reference.timers.items()}

    def session_rows(self, processed_ms: Iterable[int]) -> dict[tuple[str, int], SessionRow]:
        """The table `sessions` after the changes of these micro-batches, by device and session."""
        return session_rows(change for clock_ms in processed_ms for change in self.changes.get(clock_ms, ()))

    def sessions(self, processed_ms: set[int]) -> Counted:
        """The same as counted rows."""
        return self.counted(
            (*session, row.account_id, row.platform, row.status, row.started_ms, row.ended_ms, row.duration_ms,
             row.foreground_s, row.end_reason, row.revision, row.updated_ms, *row.labels)
            for session, row in self.session_rows(processed_ms).items()
        )  # fmt: skip


class JobReference(Reference):
    """The reference with a job's grouping keys; it begins with given devices, and counts the rows of the state."""

    def __init__(self, rules: Rules, groups: int | None, hash_key: str = "") -> None:
        key_of = (lambda device_id: device_id) if groups is None else partial(group_of, groups, hash_key=hash_key)
        super().__init__(rules, key_of, is_grouped=groups is not None)
        self._groups, self._hash_key = groups, hash_key

    def state_rows(self) -> range:
        """The possible numbers of rows in the operator's state: one row per entry.

        With groups, from one row per group, if all its devices are recent, to one more row for every bucket.
        """
        if self._groups is not None:
            buckets = {bucket_of(self._groups, device.device_id, self._hash_key) for device in self.devices()}
            groups = {group for group, _ in buckets}
            return range(len(groups), len(groups) + len(buckets) + 1)
        rows = sum(
            len(device.closed) + len(device.pending_ends) + (device.live is not None) for device in self.devices()
        )
        return range(rows, rows + 1)

    def begin_with(self, devices: Iterable[Device], newest_ms: int) -> None:
        """Add devices from before the first micro-batch; their beats up to `newest_ms` were all emitted."""
        self._now_ms = newest_ms
        for device in devices:
            key = self.key_of(device.device_id)
            self.remembered.setdefault(key, {})[device.device_id] = device
            if device.live is not None:
                device.live.last_beat = self._newest_instant(key, newest_ms)
        for key in self.remembered:
            if (needed_ms := self._needed_ms(key)) is not None:
                self.timers[key] = {needed_ms}


def build_oracle(
    checkpoints: Path,
    rules: Rules,
    source: Source | None = None,
    *,
    groups: int | None = None,
    digest: Callable[[Row], Any] = tuple,
    former: Oracle | None = None,
    events: Fields = DEFAULT,
) -> Oracle:
    """Repeat in the reference everything that a stopped job did under constant settings.

    Args:
        checkpoints: the job's checkpoint folder.
        rules: the rules of the job.
        source: the job's input, by default files.
        groups: the job's `--device-groups`.
        digest: replaces each row where rows are counted.
        former: the oracle of the checkpoint whose sessions this one began with (`--from-sessions`); its rows are added.
        events: the content of the job's event map.
    """
    oracle = Oracle(digest, groups, events, rules.inactivity_timeout_ms is not None)
    source = source or Files()
    layout = json.loads((checkpoints / "layout.json").read_text(encoding="utf-8"))
    reference = JobReference(rules, groups, layout["hash_key"])
    if former is not None:
        reference.begin_with(deepcopy(former.remembered), former.newest_ms)
    for query, play in (("sessionize", partial(_sessionize, reference)), ("archive", _archive)):
        batches = batches_of(checkpoints / query)
        oracle.files[query] = [path_of(uri) for batch in batches if batch.is_committed for uri in batch.files]
        play(source, oracle, batches)
    oracle.remembered = reference.devices()
    if former is not None:
        oracle.taken_over_ms = former.newest_ms
        oracle.add_former(former)
    return oracle


def _sessionize(reference: JobReference, source: Source, oracle: Oracle, batches: list[Batch]) -> None:
    rows = 0
    batches = [batch for batch in batches if not batch.is_repartitioning]
    for batch in batches:
        if not batch.is_committed:
            oracle.take_state_of(reference)
        results = [oracle.read(message) for message in source.messages_of(batch)]
        events: list[tuple[str, Event]] = [result for result in results if isinstance(result, tuple)]
        before = dict(reference.counters)
        changes = reference.micro_batch(batch.clock_ms, events)
        counted = {name: count - before[name] for name, count in reference.counters.items()}
        kinds = Counter(change.kind for _, change in changes)
        oracle.newest_ms = max(oracle.newest_ms, batch.clock_ms if changes else 0)
        oracle.changes[batch.clock_ms] = [change for change in changes if change[1].kind is not ChangeKind.HEARTBEAT]
        oracle.add("session_changes", batch, (change_row(*change, len(oracle.labels)) for change in changes))
        counted |= {str(kind): kinds[kind] for kind in ChangeKind} | {"heartbeats": kinds[ChangeKind.HEARTBEAT]}
        progress = {"query": "sessionize", "batch_id": batch.batch_id, "rows_in": len(events)} | counted
        oracle.add("stream_progress", batch, [tuple(map(progress.get, oracle.columns_of("stream_progress")))])
        oracle.measured["sessionize", batch.batch_id] = Measured(
            [at_ms for _, change in changes if (at_ms := change.ingested_ms) is not None],
            [at_ms for _, change in changes if (at_ms := change.due_ms) is not None],
            has_clock=bool(changes or events),
            state_rows_before=rows,
        )
        rows = reference.state_rows()
    if all(batch.is_committed for batch in batches):
        oracle.take_state_of(reference)


def _archive(source: Source, oracle: Oracle, batches: list[Batch]) -> None:
    for batch in batches:
        messages, quarantined, skipped = [], [], 0
        for message in source.messages_of(batch):
            *columns, value_bytes = astuple(message)
            row = (*columns, day(batch.clock_ms))
            messages.append(row)
            result = oracle.read(message)
            if isinstance(result, str):
                quarantined.append((*row, result, value_bytes))
            skipped += result is None
        oracle.add("raw_events", batch, messages)
        oracle.add("quarantine", batch, quarantined)
        oracle.measured["archive", batch.batch_id] = Measured([row[4] for row in messages])
        progress = {"query": "archive", "batch_id": batch.batch_id, "rows_in": len(messages)}
        progress |= {"quarantined": len(quarantined)}
        if skips(oracle.events, has_activity=oracle.has_activity):
            progress["skipped"] = skipped
        oracle.add("stream_progress", batch, [tuple(map(progress.get, oracle.columns_of("stream_progress")))])
