"""The clock of replayed micro-batches: from the stream's tables where they record it, and regular elsewhere."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Instants = NDArray[np.int64]
"""UTC milliseconds."""

_NEVER_MS = 1 << 62
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
        """The clock of the first micro-batch at or after an instant."""
        return int(self.all_at_or_after(np.array([instant_ms]))[0])

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


def build_clock(
    changed: tuple[ArrayLike, ArrayLike, ArrayLike],
    known: tuple[ArrayLike, ArrayLike],
    *,
    until_ms: int,
    is_whole: bool = True,
    goes_on: bool = False,
) -> MicroBatchClock:
    """A clock from rows of the stream's tables, in any order.

    The tables do not record which micro-batch took a message that changed nothing. The clock assigns it to the first
    micro-batch with events after its ingest time, unless a micro-batch is known to start with later messages.

    Args:
        changed: for each micro-batch with changes: its clock, and the oldest and newest ingest time of their messages.
        known: for each micro-batch: its clock, and how many events it took.
        until_ms: the clock of the last micro-batch.
        is_whole: whether the first micro-batch here is the stream's first; it then took all older messages.
        goes_on: as in `MicroBatchClock`.
    """
    changed_ms, oldest_ms, newest_ms = (np.asarray(values, np.int64) for values in changed)
    known_ms, events = (np.asarray(values, np.int64) for values in known)
    took_ms = np.unique(np.concatenate([changed_ms, known_ms[events > 0]]))
    least_ms, most_ms = np.full(len(took_ms) + 1, _NEVER_MS), np.zeros(len(took_ms), np.int64)
    position = np.searchsorted(took_ms, changed_ms)
    least_ms[position], most_ms[position] = oldest_ms, newest_ms
    later_ms = np.minimum.accumulate(least_ms[::-1])[::-1][1:]
    up_to_ms = np.maximum(most_ms, np.minimum(took_ms, later_ms - 1))
    return MicroBatchClock(
        until_ms,
        known=np.unique(np.concatenate([known_ms, changed_ms])) if len(known_ms) else known_ms,
        took=took_ms,
        up_to=np.maximum.accumulate(up_to_ms) if len(up_to_ms) else up_to_ms,
        from_ms=0 if is_whole or not len(oldest_ms) else int(oldest_ms.min()),
        goes_on=goes_on,
    )
