"""Runs the checks of a preflight one after the other, each within a time limit, and prints a line for each."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sessionization.errors import SessionizationError
from sessionization.say import Say
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.tables.location import TableLocation
from sessionization.time_limit import CheckTimeoutError, call_within

T = TypeVar("T")

_LONGEST_CAUSE = 500


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a check may take, and what to do where it takes longer."""

    seconds: float
    advice: str


@dataclass
class CheckList:
    """Runs checks, and prints a line for each: what it saw, or the cause of its failure and what to do."""

    say: Say
    location: TableLocation
    failed: list[str] = field(default_factory=list)

    def run(
        self,
        name: str,
        check: Callable[[], T],
        limit: Limit,
        describe: Callable[[T], str] = str,
        *,
        is_needed: bool = True,
    ) -> T | None:
        """The result of a check; None where it has failed. The job runs without what is not needed."""

        def check_and_describe() -> tuple[T, str]:
            result = check()
            return result, describe(result)

        try:
            result, description = call_within(limit.seconds, check_and_describe)
        except CheckTimeoutError:
            cause = f"no answer within {limit.seconds:g} s: {limit.advice}"
        except Exception as error:  # noqa: BLE001 - the other checks must run
            cause = self._cause(name, error)
        else:
            self.say(f"ok       {name}: {description}")
            return result
        if is_needed:
            self.failed.append(name)
        self.say(f"FAILED   {name}: {cause}" if is_needed else f"warning  {name}: {cause}; the job runs without")
        return None

    def _cause(self, name: str, error: Exception) -> str:
        if isinstance(error, SessionizationError):
            cause = str(error)
        elif isinstance(error, OSError):
            cause = f"{error.filename or name} cannot be used ({error.strerror}): see to its space and its rights"
        elif isinstance(error, PySparkException):  # a right that is missing stands in a later line
            cause = " ".join(str(error).partition("JVM stacktrace:")[0].split())[:_LONGEST_CAUSE]
        elif isinstance(error, Py4JError):
            cause = root_cause(str(error))
        else:
            cause = f"{type(error).__name__}: {error}"
        return cause
