"""What can go wrong in a way that a person can put right."""

from typing import ClassVar


class SessionizationError(Exception):
    """Raised when a job cannot go on; the message is one line: what, which value, and what to do next.

    The root of every error that this package raises on purpose. `exit_code` is what a job then exits with.
    """

    exit_code: ClassVar[int] = 2

    def _render_traceback_(self) -> list[str]:
        """What IPython shows for it in a notebook: the line, and no stack."""
        return [f"{type(self).__name__}: {self}"]


class ConfigurationError(SessionizationError):
    """Raised when a setting, option or folder cannot be used."""


class SetupError(SessionizationError):
    """Raised when the machine lacks something that a local run needs, such as Java or a jar."""


class CheckpointError(SessionizationError):
    """Raised when a checkpoint and the settings, or a checkpoint and the tables, do not belong together."""


class StreamError(SessionizationError):
    """Raised when a streaming query ended on its own; the message names the query and its first cause."""

    exit_code = 1


class DeliveryError(SessionizationError):
    """Raised when brokers that took messages at first take no more of them; the message tells the cause."""

    exit_code = 1


class MaintenanceError(SessionizationError):
    """Raised when a job did not do all that it was to do to the tables: steps failed, or somebody else changed one meanwhile.

    The message names the cause of each.
    """

    exit_code = 1


class DifferenceError(SessionizationError):
    """Raised when what was worked out anew is not what the tables hold; the message says how much of it."""

    exit_code = 1


class StateError(SessionizationError):
    """Raised when an operator's state breaks an invariant, or a repartitioning was cut off or has changed what it holds.

    The message names each invariant, how often, and one example, or says what became of the repartitioning.
    """

    exit_code = 1


class StoppedError(SessionizationError):
    """Raised when a job is told to stop before it has begun anything; that is what was wanted, so it exits with 0."""

    exit_code = 0
