"""Frames are cached where the compute can, and are let go at the end."""

from typing import Any

import pytest
from pyspark.errors import PySparkException

from sessionization.spark.engine.cached import cached


class Frame:
    """A frame; on serverless compute it cannot be cached."""

    def __init__(self, *, is_serverless: bool) -> None:
        self._is_serverless = is_serverless
        self.calls: list[str] = []

    def persist(self) -> None:
        self.calls.append("persist")
        if self._is_serverless:
            msg = "[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported on serverless compute"
            raise PySparkException(msg)

    def unpersist(self) -> None:
        self.calls.append("unpersist")


@pytest.mark.parametrize(("is_serverless", "calls"), [(False, ["persist", "unpersist"]), (True, ["persist"])])
def test_frames_are_cached_where_that_is_possible_and_let_go_also_after_an_error(
    *, is_serverless: bool, calls: list[str]
) -> None:
    frame: Any = Frame(is_serverless=is_serverless)
    with pytest.raises(ZeroDivisionError), cached(frame):
        raise ZeroDivisionError
    assert frame.calls == calls
