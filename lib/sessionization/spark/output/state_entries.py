"""How many entries the state of device groups holds."""

from collections.abc import Iterable


class GroupEntryCounts:
    """Adds up what each group counted when its timer fired last.

    A group with a live session counts once in a heartbeat interval. One that remembers only closed sessions and pending Ends
    counts when the first of them is forgotten: after a start it is missing from the sum until then.
    """

    def __init__(self, heartbeat_ms: int) -> None:
        self._heartbeat_ms = heartbeat_ms
        self._began_ms: int | None = None
        self._entries: dict[str, int] = {}

    def after(self, processed_ms: int, counted: Iterable[tuple[str, int]]) -> int | None:
        """The entries after a micro-batch in which groups counted theirs.

        None within the first heartbeat interval of a run, as most groups have not counted yet.
        """
        # A run may begin under a clock that is ahead.
        self._began_ms = processed_ms if self._began_ms is None else min(self._began_ms, processed_ms)
        self._entries.update(counted)
        return sum(self._entries.values()) if processed_ms - self._began_ms > self._heartbeat_ms else None
