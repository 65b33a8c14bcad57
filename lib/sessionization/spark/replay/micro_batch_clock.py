"""The clock of replayed micro-batches: from the stream's tables where they record it, and regular elsewhere."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

Instants = NDArray[np.int64]
"""UTC milliseconds."""

_NEVER_MS = 1 << 62
_COLUMNS = ("known", "took", "up_to")
EVERY_MS = 1_000
"""How often a simulated stream has a micro-batch."""


def _no_instants() -> Instants:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class MicroBatchClock:
    """The processing times of micro-batches, and which of them took a message.

    Attributes:
        until_ms: the clock of the last micro-batch; nothing happens after it.
        known: the clocks of the stream's micro-batches, ascending. Before the first and after the last of them there
            is one every `EVERY_MS`. Between them there is no other one, also where the stream was down.
        took: the clocks of the micro-batches that applied events, ascending.
        up_to: for each of `took`, the newest ingest time that it or an earlier one applied.
        from_ms: no micro-batch here is known to have taken a message that was ingested before this. The clock assigns
            such a message to the first micro-batch at or after its ingest time.
        goes_on: whether the stream had later micro-batches than the last one here; they may have ended live sessions.
    """

    until_ms: int
    known: Instants = field(default_factory=_no_instants)
    took: Instants = field(default_factory=_no_instants)
    up_to: Instants = field(default_factory=_no_instants)
    from_ms: int = 0
    goes_on: bool = False

    def at_or_after(self, instant_ms: int) -> int:
        """The clock of the first micro-batch at or after an instant.

        As `all_at_or_after`, which takes ten times as long for one instant.
        """
        regular = -(-instant_ms // EVERY_MS) * EVERY_MS
        position = bisect_left(self.known, instant_ms)
        if position == len(self.known) or regular < self.known[0]:
            return regular
        return int(self.known[position])

    def all_at_or_after(self, instants_ms: Instants) -> Instants:
        """As `at_or_after`, for each instant."""
        regular = -(-instants_ms // EVERY_MS) * EVERY_MS
        if not len(self.known):
            return regular
        position = np.searchsorted(self.known, instants_ms, "left")
        next_known = self.known[np.minimum(position, len(self.known) - 1)]
        is_before = regular < self.known[0]
        return np.where(is_before | (position == len(self.known)), regular, next_known)

    def of_messages(self, ingested_ms: Instants) -> Instants:
        """The clock of the micro-batch that took each message, by ingest time; monotonic in the ingest time."""
        if not len(self.took):
            return self.all_at_or_after(ingested_ms)
        position = np.searchsorted(self.up_to, ingested_ms, "left")
        taken = self.took[np.minimum(position, len(self.took) - 1)]
        after_last = np.maximum(self.all_at_or_after(ingested_ms), self.took[-1])
        clock = np.where(position == len(self.took), after_last, taken)
        return np.where(ingested_ms < self.from_ms, np.minimum(self.all_at_or_after(ingested_ms), clock), clock)


Changed = tuple[ArrayLike, ArrayLike, ArrayLike]
"""For each micro-batch with changes: its clock, and the oldest and newest ingest time of their messages."""
Known = tuple[ArrayLike, ArrayLike]
"""For each micro-batch: its clock, and how many events it took."""


@dataclass(frozen=True)
class _ClockPart:
    """The instants of some micro-batches; `oldest_ms` is the oldest ingest time of these and all later ones."""

    known: Instants
    took: Instants
    up_to: Instants
    oldest_ms: int


def _clock_part(changed: Changed, known: Known, later_oldest_ms: int) -> _ClockPart:
    """The part of a clock, before later micro-batches whose messages are no older than `later_oldest_ms`."""
    changed_ms, oldest_ms, newest_ms = (np.asarray(values, np.int64) for values in changed)
    known_ms, events = (np.asarray(values, np.int64) for values in known)
    took_ms = np.unique(np.concatenate([changed_ms, known_ms[events > 0]]))
    least_ms, most_ms = np.full(len(took_ms) + 1, _NEVER_MS), np.zeros(len(took_ms), np.int64)
    position = np.searchsorted(took_ms, changed_ms)
    least_ms[position], most_ms[position] = oldest_ms, newest_ms
    least_ms[-1] = later_oldest_ms
    later_ms = np.minimum.accumulate(least_ms[::-1])[::-1][1:]
    return _ClockPart(
        known=np.unique(np.concatenate([known_ms, changed_ms])),
        took=took_ms,
        up_to=np.maximum(most_ms, np.minimum(took_ms, later_ms - 1)),
        oldest_ms=int(least_ms.min()),
    )


@dataclass(frozen=True)
class StoredClock:
    """A clock whose instants are in files, of eight bytes an instant. It is small, so that it can be sent to tasks."""

    clock: MicroBatchClock
    """The clock without instants."""
    micro_batches: int
    names: dict[str, str]
    """The name of the file of each column of instants in `MicroBatchClock`."""

    def load(self, path_of: Callable[[str], str]) -> MicroBatchClock:
        """The clock, mapped into memory; `path_of` returns where a file of that name is."""
        known, took, up_to = (_map_instants(path_of(self.names[column])) for column in _COLUMNS)
        return replace(self.clock, known=known, took=took, up_to=up_to)


class ClockBuilder:
    """Builds a clock from rows of the stream's tables, with those of one part, such as a day, in memory at a time.

    The tables do not record which micro-batch took a message that changed nothing. The clock assigns it to the first
    micro-batch with events after its ingest time, unless a micro-batch is known to start with later messages.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = self._micro_batches = 0
        self._oldest_ms = self._first_changed_ms = _NEVER_MS
        self._has_known = False

    def add_earlier(self, changed: Changed, known: Known) -> None:
        """Add micro-batches, in any order, that are earlier than all that were added before."""
        part = _clock_part(changed, known, self._oldest_ms)
        self._oldest_ms = part.oldest_ms
        self._first_changed_ms = min([self._first_changed_ms, *np.asarray(changed[0], np.int64).tolist()])
        self._has_known |= len(np.asarray(known[0])) > 0
        self._micro_batches += len(part.took)
        for column in _COLUMNS:
            getattr(part, column).tofile(self._part(column, self._parts))
        self._parts += 1

    @property
    def first_changed_ms(self) -> int | None:
        """The clock of the first micro-batch with changes; None without one."""
        return None if self._first_changed_ms == _NEVER_MS else self._first_changed_ms

    def build(self, *, until_ms: int, is_whole: bool, goes_on: bool) -> StoredClock:
        """Join the parts, in files in the folder of this builder.

        Args:
            until_ms: the clock of the last micro-batch.
            is_whole: whether the first micro-batch here is the stream's first; it then took all older messages.
            goes_on: as in `MicroBatchClock`.
        """
        from_ms = 0 if is_whole or self._oldest_ms == _NEVER_MS else self._oldest_ms
        names = {column: f"{self._folder.name}-{column}" for column in _COLUMNS}
        newest_ms = 0
        for column, name in names.items():
            with (self._folder / name).open("wb") as joined:
                for number in reversed(range(self._parts if column != "known" or self._has_known else 0)):
                    instants = np.fromfile(self._part(column, number), np.int64)
                    if column == "up_to" and len(instants):
                        instants = np.maximum.accumulate(np.maximum(instants, newest_ms))
                        newest_ms = int(instants[-1])
                    instants.tofile(joined)
        return StoredClock(MicroBatchClock(until_ms, from_ms=from_ms, goes_on=goes_on), self._micro_batches, names)

    def _part(self, column: str, number: int) -> Path:
        return self._folder / f"{column}.{number}"


def _map_instants(path: str) -> Instants:
    # An empty file cannot be mapped.
    return np.memmap(path, np.int64, "r") if Path(path).stat().st_size else _no_instants()
