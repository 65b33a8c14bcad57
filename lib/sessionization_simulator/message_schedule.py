"""The simulated messages as arrays, and a schedule that releases them when they are due."""

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Messages = npt.NDArray[np.void]
"""An array of `MESSAGE`."""

MESSAGE = np.dtype(
    [
        ("deliver_ms", np.int64),
        ("at_ms", np.int64),
        ("ends_ms", np.int64),
        ("session_id", np.int64),
        ("foreground_s", np.int64),
        ("device", np.int32),
        ("dirt", np.int8),
        ("is_end", np.bool_),
        ("has_foreground", np.bool_),
        ("has_account", np.bool_),
    ]
)
"""One message: `at_ms` is its event time, `ends_ms` the end of its session, `dirt` the code of a `DirtKind`."""


_SOON_PART = 16


def no_messages() -> Messages:
    return np.empty(0, MESSAGE)


class Schedule:
    """Messages that wait for the instant in one of their fields.

    Messages that are due soon are stored separately, so that a step does not scan millions that are due later.
    """

    def __init__(self, field: Literal["at_ms", "deliver_ms"], soon_ms: int) -> None:
        """`soon_ms` is the shortest span that counts as soon; choose a few steps."""
        self._field = field
        self._soon_ms = soon_ms
        self._soon_until_ms = -(2**62)
        self._soon: list[Messages] = []
        self._late: list[Messages] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, messages: Messages) -> None:
        self._count += len(messages)
        self._sort_in(messages)

    def take(self, until_ms: int) -> Messages:
        """Take, in order, the messages due before `until_ms`; messages added later must not be due before it."""
        if until_ms > self._soon_until_ms:
            waiting = concatenate(*self._soon, *self._late)
            self._soon, self._late = [], []
            self._soon_until_ms = max(until_ms + self._soon_ms, self._instant_worth_a_scan(waiting))
            self._sort_in(waiting)
        soon = concatenate(*self._soon)
        is_due = soon[self._field] < until_ms
        due = soon[is_due]
        self._soon = [soon[~is_due]]
        self._count -= len(due)
        return in_order(due, self._field)

    def _instant_worth_a_scan(self, waiting: Messages) -> int:
        """Find the instant when a sixteenth of the waiting messages is due; a new scan pays off then."""
        count = len(waiting) // _SOON_PART
        return int(np.partition(waiting[self._field], count)[count]) if count else 0

    def _sort_in(self, messages: Messages) -> None:
        is_soon = messages[self._field] < self._soon_until_ms
        for waiting, part in ((self._soon, messages[is_soon]), (self._late, messages[~is_soon])):
            if len(part):
                waiting.append(part)


def in_order(messages: Messages, field: str) -> Messages:
    """Sort by one field; the sort is stable."""
    return messages[np.argsort(messages[field], kind="stable")]


def concatenate(*parts: Messages) -> Messages:
    return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else no_messages()


def with_fields(messages: Messages, **fields: Any) -> Messages:
    """Copy messages, and set some of their fields."""
    copy = messages.copy()
    for name, values in fields.items():
        copy[name] = values
    return copy
