"""Processes that run for the time of a `with`."""

from abc import ABC, abstractmethod
from typing import Self


class Daemons(ABC):
    """Starts processes, and stops them at the end, also those that ran where a later one did not start."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...
