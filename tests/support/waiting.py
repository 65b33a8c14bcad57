"""Waiting for what another thread or process does, and lines that nobody may say."""

import time
from collections.abc import Callable

DEADLINE_S = 300
_QUICK_S = 0.05


def wait_for(condition: Callable[[], object], awaited: str = "the condition", within_s: float = DEADLINE_S) -> None:
    """Poll until the condition holds."""
    deadline_s = time.monotonic() + within_s
    while True:
        looked_s = time.monotonic()
        if condition():
            return
        assert time.monotonic() < deadline_s, f"waited {within_s} s for {awaited}"
        rest_after_look(looked_s, 0.01 if within_s < DEADLINE_S else 0.2)


def rest_after_look(looked_s: float, poll_s: float) -> None:
    """Sleep before the next look; after one that took long for longer, so that looks take a fifth of a core at most."""
    took_s = time.monotonic() - looked_s
    time.sleep(poll_s if took_s < _QUICK_S else max(poll_s, 4 * took_s))


def expect_no_line(line: str) -> None:
    """Takes the place of a function that says a line, where none may be said."""
    raise AssertionError(line)
