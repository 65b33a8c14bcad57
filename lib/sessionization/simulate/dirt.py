"""What goes wrong on the way: messages that are late, lost or repeated, and clocks that are off."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from sessionization.durations import DAY_MS, HOUR_MS
from sessionization.simulate.dirt_kinds import CLEAN, DirtKind
from sessionization.simulate.evening import Integers, ends_of, new_lengths_ms, session_ids
from sessionization.simulate.message_schedule import Messages, changed, joined

_SECOND_MS = 1_000
_MINUTE_MS = 60_000

_MEAN_REPEAT_MS = 10 * _SECOND_MS
_MEAN_LATENESS_MS = 2 * _MINUTE_MS
_MEAN_START_AFTER_END_MS = 5 * _SECOND_MS
_SKEW_MS = (_SECOND_MS, 5 * _MINUTE_MS)
# Beyond the sessionize job's default limits of ten minutes and seven days, whatever the delay on the way.
_FUTURE_MS = (2 * HOUR_MS, 2 * DAY_MS)
_TOO_OLD_MS = (8 * DAY_MS, 30 * DAY_MS)


class Dirt:
    """Befalls a fraction of the events, each with one kind, all kinds that fit the event being equally likely."""

    def __init__(
        self, share: float, kinds: Iterable[DirtKind], session_length_ms: float, ends_ms: int, rng: np.random.Generator
    ) -> None:
        """`ends_ms` is the end of the simulated span: what would take longer is left out."""
        kinds = tuple(kinds)
        self._share = share
        self._start_codes = np.array([kind.code for kind in kinds if kind.applies_to_starts], np.int8)
        self._end_codes = np.array([kind.code for kind in kinds if kind.applies_to_ends], np.int8)
        self._session_length_ms = session_length_ms
        self._ends_ms = ends_ms
        self._rng = rng
        # The other kinds are a matter of how a message is written.
        self._change_by_kind: dict[DirtKind, Callable[[Messages], Messages]] = {
            DirtKind.REPEAT: self._repeat,
            DirtKind.LATE_END: self._late_end,
            DirtKind.END_BEFORE_START: self._end_before_start,
            DirtKind.OVERLAP: self._overlap,
            DirtKind.LOST_START: self._lose_start,
            DirtKind.LOST_END: self._lose_end,
            DirtKind.SKEWED_CLOCK: self._skew_clock,
            DirtKind.EVENT_TIME_IN_FUTURE: self._in_future,
            DirtKind.EVENT_TIME_TOO_OLD: self._too_old,
        }
        self.lost = {DirtKind.LOST_START: 0, DirtKind.LOST_END: 0}
        """How many messages were lost so far; the other kinds show in the messages."""

    def apply(self, messages: Messages) -> Messages:
        """The messages that are to be delivered instead of the valid `messages`, in no particular order.

        A kind that is a matter of how a message is written is only noted in its `dirt`.
        """
        if not self._share or not len(messages):
            return messages
        messages = messages.copy()
        is_dirty = self._rng.random(len(messages)) < self._share
        self._draw(messages, is_dirty & ~messages["is_end"], self._start_codes)
        self._draw(messages, is_dirty & messages["is_end"], self._end_codes)
        dirty = messages["dirt"] != CLEAN
        parts = [messages[~dirty]]
        messages = messages[dirty]
        for kind in DirtKind:
            some = messages[messages["dirt"] == kind.code]
            if len(some):
                parts.append(self._change_by_kind[kind](some) if kind in self._change_by_kind else some)
        return joined(*parts)

    def _draw(self, messages: Messages, where: npt.NDArray[np.bool_], codes: npt.NDArray[np.int8]) -> None:
        count = np.count_nonzero(where)
        if count and len(codes):
            messages["dirt"][where] = self._rng.choice(codes, count)

    def _repeat(self, messages: Messages) -> Messages:
        repeats = self._delayed(messages, _MEAN_REPEAT_MS)
        return joined(changed(messages, dirt=CLEAN), repeats)

    def _late_end(self, messages: Messages) -> Messages:
        return self._delayed(messages, _MEAN_LATENESS_MS)

    def _end_before_start(self, messages: Messages) -> Messages:
        ends_in_time = messages["ends_ms"] < self._ends_ms
        after_end = changed(messages[ends_in_time], deliver_ms=messages["ends_ms"][ends_in_time])
        return joined(self._delayed(after_end, _MEAN_START_AFTER_END_MS), changed(messages[~ends_in_time], dirt=CLEAN))

    def _overlap(self, messages: Messages) -> Messages:
        """Open a second session on the device somewhere within the first."""
        length_ms = messages["ends_ms"] - messages["at_ms"]
        at_ms = messages["at_ms"] + (length_ms * self._rng.random(len(messages))).astype(np.int64)
        in_time = at_ms < self._ends_ms
        at_ms = at_ms[in_time]
        starts = changed(
            messages[in_time],
            at_ms=at_ms,
            deliver_ms=at_ms,
            ends_ms=at_ms + 1 + new_lengths_ms(len(at_ms), self._session_length_ms, self._rng),
            session_id=session_ids(len(at_ms), self._rng),
        )
        return joined(changed(messages, dirt=CLEAN), starts, changed(ends_of(starts, self._rng), dirt=CLEAN))

    def _lose_start(self, messages: Messages) -> Messages:
        self.lost[DirtKind.LOST_START] += len(messages)
        return messages[:0]

    def _lose_end(self, messages: Messages) -> Messages:
        self.lost[DirtKind.LOST_END] += len(messages)
        return messages[:0]

    def _skew_clock(self, messages: Messages) -> Messages:
        ahead = self._rng.choice(np.array([-1, 1]), len(messages))
        return changed(messages, at_ms=messages["at_ms"] + ahead * self._between(_SKEW_MS, len(messages)))

    def _in_future(self, messages: Messages) -> Messages:
        # Ahead of the whole span: faster than real-time it ends now, and now is when the message is ingested.
        return changed(messages, at_ms=self._ends_ms + self._between(_FUTURE_MS, len(messages)))

    def _too_old(self, messages: Messages) -> Messages:
        return changed(messages, at_ms=messages["at_ms"] - self._between(_TOO_OLD_MS, len(messages)))

    def _delayed(self, messages: Messages, mean_ms: int) -> Messages:
        delays_ms = 1 + self._rng.exponential(mean_ms, len(messages)).astype(np.int64)
        return changed(messages, deliver_ms=messages["deliver_ms"] + delays_ms)

    def _between(self, bounds_ms: tuple[int, int], count: int) -> Integers:
        return self._rng.integers(*bounds_ms, count)
