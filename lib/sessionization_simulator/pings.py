"""Pings: the signs of life that a device sends while its session goes on."""

import numpy as np
import numpy.typing as npt

from sessionization_simulator.dirt import CLEAN, Dirt, DirtKind
from sessionization_simulator.evening import Messages, Schedule, concatenate, with_fields

_OFFLINE_PINGS = (2, 20)
"""How long a device has no network, in intervals of its pings."""


class Pings:
    """The pings of all sessions: one per interval, from shortly after a session's Start until it is over.

    A device that has lost the network sends its pings when it is back. After a crash it sends nothing more.
    """

    def __init__(self, interval_ms: int, dirt: Dirt, rng: np.random.Generator, span_ms: int) -> None:
        """`span_ms` is a span of `Schedule`: a few times the step between two calls of `play`."""
        self._interval_ms = interval_ms
        self._dirt = dirt
        self._rng = rng
        self._next = Schedule("at_ms", span_ms)
        self._crashed: set[int] = set()

    def play(self, starts: Messages, until_ms: int) -> Messages:
        """Return the pings before `until_ms` of these sessions and of earlier ones, in no particular order."""
        # A client's clock does not begin with a session. Sessions that all open at once do not ping all at once.
        first_ms = starts["at_ms"] + 1 + starts["session_id"] % self._interval_ms
        self._wait(with_fields(starts, at_ms=first_ms, deliver_ms=first_ms, is_ping=True))
        sent = []
        while len(due := self._next.take(until_ms)):
            pings = self._cut_off(self._dirt.mark(due), due["dirt"] == CLEAN)
            sent.append(pings)
            is_last = pings["dirt"] == DirtKind.CRASH.code
            self._crashed.update(pings["session_id"][is_last].tolist())
            going_on = pings[~is_last]
            self._wait(with_fields(going_on, at_ms=going_on["at_ms"] + self._interval_ms))
        return self._dirt.deliver(concatenate(*sent))

    def without_crashed(self, messages: Messages) -> Messages:
        """Leave out the Ends of sessions that have crashed."""
        has_crashed = np.isin(messages["session_id"], np.fromiter(self._crashed, np.int64, len(self._crashed)))
        kept: Messages = messages[~(has_crashed & messages["is_end"])]
        return kept

    def _cut_off(self, pings: Messages, had_network: npt.NDArray[np.bool_]) -> Messages:
        """Decide when the devices that have just lost the network are back: at the latest just before the End."""
        is_cut_off = had_network & (pings["dirt"] == DirtKind.OFFLINE.code)
        pauses_ms = self._rng.integers(*_OFFLINE_PINGS, np.count_nonzero(is_cut_off)) * self._interval_ms
        deliver_ms = pings["deliver_ms"].copy()
        deliver_ms[is_cut_off] = np.minimum(pings["at_ms"][is_cut_off] + pauses_ms, pings["ends_ms"][is_cut_off] - 1)
        return with_fields(pings, deliver_ms=deliver_ms)

    def _wait(self, pings: Messages) -> None:
        """Note the next ping of each session; one that is due while its device has no network is delivered later."""
        pings = pings[pings["at_ms"] < pings["ends_ms"]]
        deliver_ms = np.maximum(pings["deliver_ms"], pings["at_ms"])
        dirt = np.where(deliver_ms > pings["at_ms"], DirtKind.OFFLINE.code, CLEAN)
        self._next.add(with_fields(pings, deliver_ms=deliver_ms, dirt=dirt))
