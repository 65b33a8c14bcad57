"""The fixed grid of instants that timers are set on."""

from dataclasses import dataclass
from zlib import crc32


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
        """How many steps lie between two instants of the grid."""
        return (to_ms - from_ms) // self.step_ms


@dataclass(frozen=True, slots=True)
class Firing:
    """A timer that was set for one instant and fires at `now_ms`, maybe much later.

    `due_ms` is the newest instant of the grid, and `first_due_ms` the first that was not emitted yet: the one the timer
    was set for, which so stands for the last beat.
    """

    now_ms: int
    due_ms: int
    first_due_ms: int
    grid: Grid

    @property
    def missed(self) -> int:
        """How many instants before `due_ms` were not emitted; below 0 where that one was."""
        return self.grid.steps(self.first_due_ms, self.due_ms)

    def beat_of(self, opened_ms: int) -> int:
        """How many instants of the grid have come since a session was opened, `due_ms` the last; below 1 if none has."""
        return self.grid.steps(self.grid.at_or_before(opened_ms), self.due_ms)

    @classmethod
    def of(cls, set_for_ms: int, now_ms: int, grid: Grid) -> "Firing":
        return cls(now_ms, grid.at_or_before(now_ms), grid.at_or_after(set_for_ms), grid)


def grid_of(grouping_key: str, heartbeat_ms: int) -> Grid:
    """The grid of a grouping key: its checksum spreads the keys' beats evenly over the heartbeat interval.

    A million sessions opened in one second so do not beat in one second, also not after an outage.
    """
    return Grid(heartbeat_ms, crc32(grouping_key.encode()) % heartbeat_ms)
