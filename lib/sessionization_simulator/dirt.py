"""What goes wrong: the kinds of dirt, and the late, lost or repeated messages and wrong clocks among them."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from sessionization.durations import DAY_MS, HOUR_MS
from sessionization_simulator.evening import (
    Messages,
    concatenate,
    matching_ends,
    new_lengths_ms,
    session_ids,
    with_fields,
)
from sessionization_simulator.fleet import Integers

_SECOND_MS = 1_000
_MINUTE_MS = 60_000

_MEAN_REPEAT_MS = 10 * _SECOND_MS
_MEAN_LATENESS_MS = 2 * _MINUTE_MS
_MEAN_START_AFTER_END_MS = 5 * _SECOND_MS
_SKEW_MS = (_SECOND_MS, 5 * _MINUTE_MS)
# Beyond the sessionize job's default limits of ten minutes and seven days, for any delay on the way.
_FUTURE_MS = (2 * HOUR_MS, 2 * DAY_MS)
_TOO_OLD_MS = (8 * DAY_MS, 30 * DAY_MS)


class DirtKind(StrEnum):
    """One way for an event to go wrong; the names of the last ten are quarantine reasons."""

    REPEAT = "repeat"
    """The message arrives once more, later."""
    LATE_END = "late_end"
    """The End arrives minutes after it happened."""
    END_BEFORE_START = "end_before_start"
    """The Start arrives after its End."""
    OVERLAP = "overlap"
    """The device opens another session before this one is over."""
    LOST_START = "lost_start"
    """The Start never arrives."""
    LOST_END = "lost_end"
    """The End never arrives."""
    SKEWED_CLOCK = "skewed_clock"
    """The event time is off by up to five minutes, which the rules tolerate."""
    LOCAL_TIME = "local_time"
    """The event time has another offset than Z; the instant is the same."""
    ODD_OPTIONAL = "odd_optional"
    """An optional field is null, empty or of a wrong type."""
    OTHER_EVENT = "other_event"
    """The event is of another kind, which the map skips."""
    CRASH = "crash"
    """The game crashes after the ping: no further ping comes, and no End."""
    OFFLINE = "offline"
    """The device has no network for a while: its pings arrive together when it is back."""
    OVERSIZED = "oversized"
    MALFORMED_JSON = "malformed_json"
    MISSING_DEVICE_ID = "missing_device_id"
    MISSING_SESSION_ID = "missing_session_id"
    MISSING_EVENT_TIME = "missing_event_time"
    UNKNOWN_EVENT = "unknown_event"
    EVENT_TIME_IN_FUTURE = "event_time_in_future"
    EVENT_TIME_TOO_OLD = "event_time_too_old"
    NEGATIVE_FOREGROUND = "negative_foreground"
    UNKNOWN_PLATFORM = "unknown_platform"

    @property
    def code(self) -> int:
        """A small number for arrays; 0 (`CLEAN`) marks an event without dirt."""
        return CLEAN + 1 + list(DirtKind).index(self)


CLEAN = 0

PING_ONLY = frozenset({DirtKind.CRASH, DirtKind.OFFLINE})
_START_ONLY = {DirtKind.END_BEFORE_START, DirtKind.OVERLAP, DirtKind.LOST_START}
_END_ONLY = {DirtKind.LATE_END, DirtKind.LOST_END, DirtKind.NEGATIVE_FOREGROUND}


def _codes(kinds: Iterable[DirtKind], without: Iterable[DirtKind]) -> npt.NDArray[np.int8]:
    return np.array([kind.code for kind in kinds if kind not in without], np.int8)


class Dirt:
    """Changes a fraction of the events; each gets one kind of dirt, drawn evenly from the kinds that fit it."""

    def __init__(
        self, share: float, kinds: Iterable[DirtKind], session_length_ms: float, ends_ms: int, rng: np.random.Generator
    ) -> None:
        """`ends_ms` is the end of the simulated span; messages that would come after it are left out."""
        kinds = tuple(kinds)
        self._share = share
        self._starts = _codes(kinds, _END_ONLY | PING_ONLY)
        self._ends = _codes(kinds, _START_ONLY | PING_ONLY)
        self._pings = _codes(kinds, _START_ONLY | _END_ONLY)
        self._session_length_ms = session_length_ms
        self._ends_ms = ends_ms
        self._rng = rng
        self.counts = Counter[DirtKind]()
        """How many events have got each kind so far, those whose message is lost included."""

    def apply(self, messages: Messages) -> Messages:
        """Return the messages to deliver instead of the valid `messages`, in no particular order.

        A kind that concerns the text of a message is only noted in the field `dirt`: `malformed` writes it.
        """
        return self.deliver(self.mark(messages))

    def mark(self, messages: Messages) -> Messages:
        """Draw the kind of dirt of each message that has none yet."""
        if not self._share or not len(messages):
            return messages
        messages = messages.copy()
        is_end, is_ping = messages["is_end"], messages["is_ping"]
        is_dirty = (self._rng.random(len(messages)) < self._share) & (messages["dirt"] == CLEAN)
        for codes, fits in ((self._starts, ~is_end & ~is_ping), (self._ends, is_end), (self._pings, is_ping)):
            is_chosen = is_dirty & fits
            if is_chosen.any() and len(codes):
                messages["dirt"][is_chosen] = self._rng.choice(codes, np.count_nonzero(is_chosen))
        return messages

    def deliver(self, messages: Messages) -> Messages:
        """Return the messages to deliver instead of the marked ones."""
        parts = [messages[messages["dirt"] == CLEAN]]
        for kind in DirtKind:
            of_kind = messages[messages["dirt"] == kind.code]
            if len(of_kind):
                self.counts[kind] += len(of_kind)
                parts.append(self._changed(of_kind, kind))
        return concatenate(*parts)

    def _changed(self, messages: Messages, kind: DirtKind) -> Messages:  # noqa: PLR0911 - one per kind
        match kind:
            case DirtKind.REPEAT:
                return concatenate(with_fields(messages, dirt=CLEAN), self._delayed(messages, _MEAN_REPEAT_MS))
            case DirtKind.LATE_END:
                return self._delayed(messages, _MEAN_LATENESS_MS)
            case DirtKind.END_BEFORE_START:
                ends_in_time = messages["ends_ms"] < self._ends_ms
                after_end = with_fields(messages[ends_in_time], deliver_ms=messages["ends_ms"][ends_in_time])
                others = with_fields(messages[~ends_in_time], dirt=CLEAN)
                return concatenate(self._delayed(after_end, _MEAN_START_AFTER_END_MS), others)
            case DirtKind.OVERLAP:
                return self._overlap(messages)
            case DirtKind.LOST_START | DirtKind.LOST_END:
                return messages[:0]
            case DirtKind.SKEWED_CLOCK:
                direction = self._rng.choice(np.array([-1, 1]), len(messages))
                return with_fields(
                    messages, at_ms=messages["at_ms"] + direction * self._between(_SKEW_MS, len(messages))
                )
            case DirtKind.EVENT_TIME_IN_FUTURE:
                # After the whole span: at a pace above real-time the span ends now, and the message is ingested now.
                return with_fields(messages, at_ms=self._ends_ms + self._between(_FUTURE_MS, len(messages)))
            case DirtKind.EVENT_TIME_TOO_OLD:
                return with_fields(messages, at_ms=messages["at_ms"] - self._between(_TOO_OLD_MS, len(messages)))
            case _:
                return messages

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

    def _delayed(self, messages: Messages, mean_ms: int) -> Messages:
        delays_ms = 1 + self._rng.exponential(mean_ms, len(messages)).astype(np.int64)
        return with_fields(messages, deliver_ms=messages["deliver_ms"] + delays_ms)

    def _between(self, bounds_ms: tuple[int, int], count: int) -> Integers:
        return self._rng.integers(*bounds_ms, count)
