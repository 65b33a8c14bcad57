"""The pace of a query that runs beside `sessionize`: it rests after a micro-batch, in proportion to what that took."""

import threading
import time

from sessionization.durations import DurationRange

_LEAST_BACKLOG_S = 30.0
"""A newest row of this age may be one that came late; only older ones make a backlog."""


class QueryPace:
    """Lets a query rest, so that the time from one micro-batch to the next is within a range of durations.

    Within it the query takes its share of the time: a busy machine spends its cores on heartbeats first. A query
    that has a backlog does not rest.
    """

    def __init__(self, every: DurationRange, share: float) -> None:
        self._share = share
        self._every_s = every.shortest_ms / 1_000, every.longest_ms / 1_000
        self._took_before_s = 0.0
        self._is_over = threading.Event()

    def rest(self, began_s: float, newest_age_s: float) -> None:
        """Wait, on the query's own thread, until the next micro-batch may begin.

        Of the last two micro-batches the quicker one counts: the first one of a run and one with a compaction take
        far longer than the others.

        Args:
            began_s: when this micro-batch began, on the monotonic clock.
            newest_age_s: the age of its newest row as the micro-batch began. Above half a minute, and above the longest
                time between two micro-batches, more rows wait.
        """
        took_s = time.monotonic() - began_s
        shortest_s, longest_s = self._every_s
        every_s = min(max(min(took_s, self._took_before_s) / self._share, shortest_s), longest_s)
        self._took_before_s = took_s
        if newest_age_s <= max(longest_s, _LEAST_BACKLOG_S):
            self._is_over.wait(max(0.0, every_s - took_s))

    def end(self) -> None:
        """End the rest, and let the query never rest again."""
        self._is_over.set()
