"""Faults of messages on their way: late, lost or repeated ones, and clocks that are off."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from sessionization.durations import DAY_MS, HOUR_MS
from sessionization_simulator.dirt_kinds import CLEAN, DirtKind
from sessionization_simulator.evening import matching_ends, new_lengths_ms, session_ids
from sessionization_simulator.fleet import Integers
from sessionization_simulator.message_schedule import Messages, concatenate, with_fields

_SECOND_MS = 1_000
_MINUTE_MS = 60_000

_MEAN_REPEAT_MS = 10 * _SECOND_MS
_MEAN_LATENESS_MS = 2 * _MINUTE_MS
_MEAN_START_AFTER_END_MS = 5 * _SECOND_MS
_SKEW_MS = (_SECOND_MS, 5 * _MINUTE_MS)
# Beyond the sessionize job's default limits of ten minutes and seven days, for any delay on the way.
_FUTURE_MS = (2 * HOUR_MS, 2 * DAY_MS)
_TOO_OLD_MS = (8 * DAY_MS, 30 * DAY_MS)


class Dirt:
    """Changes a fraction of the events; each gets one kind of dirt, drawn evenly from the kinds that fit it."""

    def __init__(
        self, share: float, kinds: Iterable[DirtKind], session_length_ms: float, ends_ms: int, rng: np.random.Generator
    ) -> None:
        """`ends_ms` is the end of the simulated span; messages that would come after it are left out."""
        kinds = tuple(kinds)
        self._share = share
        self._start_codes = np.array([kind.code for kind in kinds if kind.applies_to_starts], np.int8)
        self._end_codes = np.array([kind.code for kind in kinds if kind.applies_to_ends], np.int8)
        self._session_length_ms = session_length_ms
        self._ends_ms = ends_ms
        self._rng = rng
        # The other kinds concern the text of a message; `malformed` writes those.
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
        """The number of lost messages so far; the other kinds are counted from the messages themselves."""

    def apply(self, messages: Messages) -> Messages:
        """Return the messages to deliver instead of the valid `messages`, in no particular order.

        A kind that concerns the text of a message is only noted in the field `dirt`.
        """
        if not self._share or not len(messages):
            return messages
        messages = messages.copy()
        is_dirty = self._rng.random(len(messages)) < self._share
        self._assign_kinds(messages, is_dirty & ~messages["is_end"], self._start_codes)
        self._assign_kinds(messages, is_dirty & messages["is_end"], self._end_codes)
        dirty = messages["dirt"] != CLEAN
        parts = [messages[~dirty]]
        messages = messages[dirty]
        for kind in DirtKind:
            of_kind = messages[messages["dirt"] == kind.code]
            if len(of_kind):
                parts.append(self._change_by_kind[kind](of_kind) if kind in self._change_by_kind else of_kind)
        return concatenate(*parts)

    def _assign_kinds(self, messages: Messages, is_chosen: npt.NDArray[np.bool_], codes: npt.NDArray[np.int8]) -> None:
        count = np.count_nonzero(is_chosen)
        if count and len(codes):
            messages["dirt"][is_chosen] = self._rng.choice(codes, count)

    def _repeat(self, messages: Messages) -> Messages:
        repeats = self._delayed(messages, _MEAN_REPEAT_MS)
        return concatenate(with_fields(messages, dirt=CLEAN), repeats)

    def _late_end(self, messages: Messages) -> Messages:
        return self._delayed(messages, _MEAN_LATENESS_MS)

    def _end_before_start(self, messages: Messages) -> Messages:
        ends_in_time = messages["ends_ms"] < self._ends_ms
        after_end = with_fields(messages[ends_in_time], deliver_ms=messages["ends_ms"][ends_in_time])
        return concatenate(
            self._delayed(after_end, _MEAN_START_AFTER_END_MS), with_fields(messages[~ends_in_time], dirt=CLEAN)
        )

    def _overlap(self, messages: Messages) -> Messages:
        """Open a second session on the device at a random instant of the first."""
        length_ms = messages["ends_ms"] - messages["at_ms"]
        at_ms = messages["at_ms"] + (length_ms * self._rng.random(len(messages))).astype(np.int64)
        in_time = at_ms < self._ends_ms
        at_ms = at_ms[in_time]
        starts = with_fields(
            messages[in_time],
            at_ms=at_ms,
            deliver_ms=at_ms,
            ends_ms=at_ms + 1 + new_lengths_ms(len(at_ms), self._session_length_ms, self._rng),
            session_id=session_ids(len(at_ms), self._rng),
        )
        return concatenate(
            with_fields(messages, dirt=CLEAN), starts, with_fields(matching_ends(starts, self._rng), dirt=CLEAN)
        )

    def _lose_start(self, messages: Messages) -> Messages:
        self.lost[DirtKind.LOST_START] += len(messages)
        return messages[:0]

    def _lose_end(self, messages: Messages) -> Messages:
        self.lost[DirtKind.LOST_END] += len(messages)
        return messages[:0]

    def _skew_clock(self, messages: Messages) -> Messages:
        direction = self._rng.choice(np.array([-1, 1]), len(messages))
        return with_fields(messages, at_ms=messages["at_ms"] + direction * self._between(_SKEW_MS, len(messages)))

    def _in_future(self, messages: Messages) -> Messages:
        # After the whole span: at a pace above real-time the span ends now, and the message is ingested now.
        return with_fields(messages, at_ms=self._ends_ms + self._between(_FUTURE_MS, len(messages)))

    def _too_old(self, messages: Messages) -> Messages:
        return with_fields(messages, at_ms=messages["at_ms"] - self._between(_TOO_OLD_MS, len(messages)))

    def _delayed(self, messages: Messages, mean_ms: int) -> Messages:
        delays_ms = 1 + self._rng.exponential(mean_ms, len(messages)).astype(np.int64)
        return with_fields(messages, deliver_ms=messages["deliver_ms"] + delays_ms)

    def _between(self, bounds_ms: tuple[int, int], count: int) -> Integers:
        return self._rng.integers(*bounds_ms, count)
