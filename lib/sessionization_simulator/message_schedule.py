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


def no_messages() -> Messages:
    return np.empty(0, MESSAGE)


class Schedule:
    """Messages that wait for the instant in one of their fields.

    They lie in spans of time, so that a step does not scan millions that are due later.
    """

    def __init__(self, field: Literal["at_ms", "deliver_ms"], span_ms: int) -> None:
        """`span_ms` is the length of a span; choose a few steps."""
        self._field = field
        self._span_ms = span_ms
        self._by_span: dict[int, list[Messages]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, messages: Messages) -> None:
        self._count += len(messages)
        ordered = in_order(messages, self._field)
        spans, firsts = np.unique(ordered[self._field] // self._span_ms, return_index=True)
        for span, part in zip(spans.tolist(), np.split(ordered, firsts[1:]), strict=False):
            self._by_span.setdefault(span, []).append(part)

    def take(self, until_ms: int) -> Messages:
        """Take, in order, the messages due before `until_ms`; messages added later must not be due before it."""
        spans = [span for span in self._by_span if span <= until_ms // self._span_ms]
        waiting = concatenate(*(part for span in spans for part in self._by_span.pop(span)))
        is_due = waiting[self._field] < until_ms
        self._count -= len(waiting)
        self.add(waiting[~is_due])
        return in_order(waiting[is_due], self._field)


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
