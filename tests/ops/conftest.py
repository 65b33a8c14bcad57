"""What waits for ever, for the tests of time limits."""

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """An event that is set only after the test, so that no thread is left."""
    event = threading.Event()
    yield event
    event.set()
