"""The fixed grid of instants for which timers are set."""

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

    @property
    def missed(self) -> int:
        """The number of instants before `due_ms` that were not emitted; below 0 if `due_ms` itself was emitted."""
        return self.grid.steps(self.first_due_ms, self.due_ms)

    def beat_number(self, opened_ms: int) -> int:
        """Return the number of grid instants since a session was opened, up to `due_ms`; below 1 if there are none."""
        return self.grid.steps(self.grid.at_or_before(opened_ms), self.due_ms)

    @classmethod
    def from_timer(cls, set_for_ms: int, now_ms: int, grid: Grid) -> "Firing":
        return cls(now_ms, grid.at_or_before(now_ms), grid.at_or_after(set_for_ms), grid)


def grid_for_key(grouping_key: str, heartbeat_ms: int) -> Grid:
    """Return the grid of a grouping key. The key's checksum spreads the beats of all keys evenly over the interval.

    A million sessions opened in one second therefore do not beat in one second, even after an outage.
    """
    return Grid(heartbeat_ms, key_hash(grouping_key) % heartbeat_ms)
