"""The fixed grid of instants for which timers are set."""

from collections.abc import Iterable
from dataclasses import dataclass

from sessionization.core.key_hash import key_hash


@dataclass(frozen=True, slots=True)
class Grid:
    """The instants `k * step_ms + phase_ms`, in UTC milliseconds.

    >>> Grid(step_ms=30_000, phase_ms=5_000).after(35_000)
    65000
    """

    step_ms: int
    phase_ms: int

    def at_or_before(self, instant_ms: int) -> int:
        return instant_ms - (instant_ms - self.phase_ms) % self.step_ms

    def at_or_after(self, instant_ms: int) -> int:
        return instant_ms + (self.phase_ms - instant_ms) % self.step_ms

    def after(self, instant_ms: int) -> int:
        return self.at_or_before(instant_ms) + self.step_ms

    def steps(self, from_ms: int, to_ms: int) -> int:
        """Return the number of steps between two instants of the grid."""
        return (to_ms - from_ms) // self.step_ms


@dataclass(frozen=True, slots=True)
class Firing:
    """A timer that was set for one instant and fires at `now_ms`, perhaps much later.

    `due_ms` is the newest instant of the grid. `first_due_ms` is the first instant since the last firing: a live
    session has a timer for each, so the earliest timer that is due records which heartbeats were emitted.
    """

    now_ms: int
    due_ms: int
    first_due_ms: int
    grid: Grid

    def beats(self, opened_ms: Iterable[int]) -> list[int]:
        """Return which heartbeat (T2) each of the sessions emits that were opened at these instants.

        The first grid instant after the opening is heartbeat 1. A session emits that of `due_ms`. It emits none, 0, if
        no instant has come since its opening, or if an earlier firing emitted that of `due_ms`.
        """
        if self.first_due_ms > self.due_ms:
            return [0 for _ in opened_ms]
        step_ms, phase_ms = self.grid.step_ms, self.grid.phase_ms
        newest = (self.due_ms - phase_ms) // step_ms
        return [max(0, newest - (instant_ms - phase_ms) // step_ms) for instant_ms in opened_ms]

    def missed_beats(self, beats: Iterable[int]) -> list[int]:
        """Return how many heartbeats of a session were skipped directly before each of these."""
        skipped = self.grid.steps(self.first_due_ms, self.due_ms)
        return [min(beat - 1, skipped) for beat in beats]

    @classmethod
    def from_timer(cls, set_for_ms: int, now_ms: int, grid: Grid) -> "Firing":
        return cls(now_ms, grid.at_or_before(now_ms), grid.at_or_after(set_for_ms), grid)


def grid_for_key(grouping_key: str, heartbeat_ms: int) -> Grid:
    """Return the grid of a grouping key. The key's checksum spreads the beats of all keys evenly over the interval.

    A million sessions opened in one second therefore do not beat in one second, even after an outage.
    """
    return Grid(heartbeat_ms, key_hash(grouping_key) % heartbeat_ms)
