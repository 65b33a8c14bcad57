"""The type of a function that reports the progress of a job, one line a call."""

from collections.abc import Callable

Say = Callable[[str], None]
