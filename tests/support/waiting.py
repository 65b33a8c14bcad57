"""Waiting for what another thread or process does, and lines that nobody may say."""

import time
from collections.abc import Callable

DEADLINE_S = 300


def wait_for(condition: Callable[[], object], awaited: str = "the condition", within_s: float = DEADLINE_S) -> None:
    """Poll until the condition holds."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {within_s} s for {awaited}"
        time.sleep(0.01 if within_s < DEADLINE_S else 0.2)


def expect_no_line(line: str) -> None:
    """Takes the place of a function that says a line, where none may be said."""
    raise AssertionError(line)
