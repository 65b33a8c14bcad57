"""Who is told, line by line, how a job goes."""

from collections.abc import Callable

Say = Callable[[str], None]
