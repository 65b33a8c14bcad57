"""The errors of this package.

Exit code 2: correct an option, a folder or the set-up, and start again. 1: it failed while working; start again once
the cause is gone. 0: stopped before it began.
"""

from typing import ClassVar


class SessionizationError(Exception):
    """Raised when a job cannot continue; the message is one line: the problem, the value and the next step.

    The base class of every error that this package raises on purpose, except in Spark's Python workers (`RuntimeError`,
    reported by a `StreamError`) and in validators of settings (`ValueError`, which becomes a `ConfigurationError`). A
    job exits with the error's `exit_code`.
    """

    exit_code: ClassVar[int] = 2

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython shows in a notebook: the message without a stack."""
        return [f"{type(self).__name__}: {self}"]


class ConfigurationError(SessionizationError):
    """Raised when a setting, option or folder cannot be used, or the engine, brokers or tables refuse the start."""


class SetupError(SessionizationError):
    """Raised when the machine lacks something that a local run needs, such as Java or a jar."""


class CheckpointError(SessionizationError):
    """Raised when a checkpoint cannot be used as asked.

    It belongs to other settings or tables, cannot be read or written, or has unfinished work.
    """


class StreamError(SessionizationError):
    """Raised when a streaming query ended on its own, or the engine died.

    The message of an ended query names the query and its first cause.
    """

    exit_code = 1


class DeliveryError(SessionizationError):
    """Raised when brokers accepted messages at first and then accept no more; the message names the cause."""

    exit_code = 1


class IncompleteWorkError(SessionizationError):
    """Raised when a job's work on the tables is incomplete: steps failed, or another writer changed a table meanwhile.

    The message names the cause of each failure.
    """

    exit_code = 1


class DifferenceError(SessionizationError):
    """Raised when recomputed sessions differ from the tables; the message counts the differences."""

    exit_code = 1


class StateError(SessionizationError):
    """Raised when a repartitioning of an operator's state was interrupted or changed the state."""

    exit_code = 1


class StoppedError(SessionizationError):
    """Raised when a job receives a stop before it has started any work. This is no failure: the job exits with 0."""

    exit_code = 0
