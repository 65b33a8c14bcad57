"""Counts the entries in the state of device groups."""

from collections.abc import Iterable


class GroupEntryCounts:
    """Adds up the number of entries that each group counted when its timer last fired.

    A group with a live session counts once per heartbeat interval. A group with only closed sessions and pending
    ends counts when the first of them leaves the state. Until then it is missing from the sum after a start of the
    job.
    """

    def __init__(self, heartbeat_ms: int) -> None:
        self._heartbeat_ms = heartbeat_ms
        self._began_ms: int | None = None
        self._entries: dict[str, int] = {}

    def after(self, processed_ms: int, counted: Iterable[tuple[str, int]]) -> int | None:
        """The number of entries after a micro-batch, in which some groups have `counted` their entries.

        None within the first heartbeat interval of a run, because most groups have not counted yet.
        """
        # The clock may be ahead when a run begins, and be corrected later.
        self._began_ms = processed_ms if self._began_ms is None else min(self._began_ms, processed_ms)
        self._entries.update(counted)
        return sum(self._entries.values()) if processed_ms - self._began_ms > self._heartbeat_ms else None
