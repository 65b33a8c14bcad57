"""The clock of the micro-batches that are simulated: the stream's own where its tables tell it, else a regular one."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

Instants = NDArray[np.int64]
"""UTC milliseconds."""

_NEVER_MS = 1 << 62
EVERY_MS = 1_000
"""How often a simulated stream has a micro-batch."""


def _none() -> Instants:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class MicroBatchClock:
    """When micro-batches were, and which of them took a message.

    Attributes:
        until_ms: the clock of the last micro-batch; nothing happens after it.
        known: the clocks of the stream's micro-batches, ascending. Before the first and after the last of them there is one
            every `EVERY_MS`; within, there was none but these, also where the stream was down.
        took: clocks of micro-batches that applied events, ascending.
        up_to: to each of `took`, the newest ingest time that it or one before it applied.
        from_ms: what was ingested before is not known to be taken by any of these, and was taken when it came.
        goes_on: whether the stream had micro-batches after the last one here, which may have ended what is live then.
    """

    until_ms: int
    known: Instants = field(default_factory=_none)
    took: Instants = field(default_factory=_none)
    up_to: Instants = field(default_factory=_none)
    from_ms: int = 0
    goes_on: bool = False

    def at_or_after(self, instant_ms: int) -> int:
        """The clock of the first micro-batch at or after an instant."""
        return int(self.all_at_or_after(np.array([instant_ms]))[0])

    def all_at_or_after(self, instants_ms: Instants) -> Instants:
        """As `at_or_after`, instant by instant."""
        regular = -(-instants_ms // EVERY_MS) * EVERY_MS
        if not len(self.known):
            return regular
        at = np.searchsorted(self.known, instants_ms, "left")
        next_known = self.known[np.minimum(at, len(self.known) - 1)]
        is_before = regular < self.known[0]
        return np.where(is_before | (at == len(self.known)), regular, next_known)

    def of_messages(self, ingested_ms: Instants) -> Instants:
        """The clock of the micro-batch that took each message, by its ingest time; never falls where that rises."""
        if not len(self.took):
            return self.all_at_or_after(ingested_ms)
        at = np.searchsorted(self.up_to, ingested_ms, "left")
        taken = self.took[np.minimum(at, len(self.took) - 1)]
        after = np.maximum(self.all_at_or_after(ingested_ms), self.took[-1])
        found = np.where(at == len(self.took), after, taken)
        return np.where(ingested_ms < self.from_ms, np.minimum(self.all_at_or_after(ingested_ms), found), found)


def build_clock(
    changed: tuple[ArrayLike, ArrayLike, ArrayLike],
    known: tuple[ArrayLike, ArrayLike],
    *,
    until_ms: int,
    is_whole: bool = True,
    goes_on: bool = False,
) -> MicroBatchClock:
    """A clock from what the stream's tables tell, in any order.

    A message that changed nothing left no trace of the micro-batch that took it. It was taken by the first one with events
    that came after it, unless one is known to have begun with later messages.

    Args:
        changed: of the micro-batches that changed something: clock, oldest and newest ingest time of what changed it.
        known: of all micro-batches: clock, and how many events it took.
        until_ms: the clock of the last micro-batch.
        is_whole: whether the first of them is the stream's first: what is older lay there when the stream began.
        goes_on: as of `MicroBatchClock`.
    """
    changed_ms, oldest_ms, newest_ms = (np.asarray(values, np.int64) for values in changed)
    known_ms, events = (np.asarray(values, np.int64) for values in known)
    took_ms = np.unique(np.concatenate([changed_ms, known_ms[events > 0]]))
    least_ms, most_ms = np.full(len(took_ms) + 1, _NEVER_MS), np.zeros(len(took_ms), np.int64)
    at = np.searchsorted(took_ms, changed_ms)
    least_ms[at], most_ms[at] = oldest_ms, newest_ms
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
