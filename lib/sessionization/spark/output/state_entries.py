"""Counts the entries in the state of device groups."""

from collections.abc import Iterable

from sessionization.say import Say

LARGE_GROUP = 40_000
"""More entries than this in one group cause a warning: ten times those that `device_groups_for` plans."""


class GroupEntryCounts:
    """Adds up the number of entries that each group counted when its timer last fired.

    A group with a live session counts once per heartbeat interval. A group with only closed sessions and pending
    ends counts when the first of them leaves the state. Until then it is missing from the sum after a start of the
    job.
    """

    def __init__(self, heartbeat_ms: int, say: Say) -> None:
        self._heartbeat_ms, self._say = heartbeat_ms, say
        self._began_ms: int | None = None
        self._entries: dict[str, int] = {}
        self._has_warned = False

    def after(self, processed_ms: int, counted: Iterable[tuple[str, int]]) -> int | None:
        """The number of entries after a micro-batch, in which some groups have `counted` their entries.

        None within the first heartbeat interval of a run, because most groups have not counted yet. Prints a warning,
        once per run, about a group that has become large.
        """
        # The clock may be ahead when a run begins, and be corrected later.
        self._began_ms = processed_ms if self._began_ms is None else min(self._began_ms, processed_ms)
        newest = dict(counted)
        self._entries.update(newest)
        self._warn_of_large_group(newest)
        return sum(self._entries.values()) if processed_ms - self._began_ms > self._heartbeat_ms else None

    def _warn_of_large_group(self, newest: dict[str, int]) -> None:
        largest = max(newest, key=newest.__getitem__, default=None)
        if largest is None or self._has_warned or newest[largest] <= LARGE_GROUP:
            return
        self._has_warned = True
        self._say(
            f"device group {largest} has {newest[largest]:,} sessions in its state, and each of its timers reads them "
            "all: for more groups begin a new --checkpoints folder with --expected-devices N --from-sessions"
        )
