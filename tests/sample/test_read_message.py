"""A message of a sample means what it means to the job: the same cases, each with the same reason."""

import pytest
import yaml

from sessionization.core.events import Start
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.message_limits import SKIPPED
from sessionization.sample.read_message import Message, read_message
from tests.support.event_maps import map_of
from tests.support.wire import read
from tests.support.wire_cases import INGESTED_MS, LIMITS, REASONS
from tests.support.wire_maps import CASES

NAMED = [
    pytest.param(text, stream, value, id=f"{stream}: {name}")
    for (text, stream), cases in ({(DEFAULT, "pc_sessions"): REASONS} | CASES).items()
    for name, (value, _) in cases.items()
]


@pytest.mark.parametrize("has_activity", [False, True], ids=["", "with activity"])
@pytest.mark.parametrize(("text", "stream", "value"), NAMED)
def test_a_message_of_a_sample_is_read_as_the_contract_says(
    text: str, stream: str, value: bytes | None, *, has_activity: bool
) -> None:
    """The second implementation is held to the expected values of these cases beside the job's parser."""
    if text == DEFAULT:
        events, expected = package_map(DEFAULT), read(stream, value, INGESTED_MS, has_activity=has_activity)
    else:
        events = map_of(text)
        expected = read(stream, value, INGESTED_MS, yaml.safe_load(text), has_activity=has_activity)
    found = read_message(
        Message(stream, value or b"", INGESTED_MS, "message 1"), events, LIMITS, has_activity=has_activity
    )
    if expected is None:
        assert found.reason == SKIPPED
    elif isinstance(expected, str):
        assert found.reason == expected
    else:
        device_id, event = expected
        assert (found.reason, found.device_id) == (None, device_id)
        assert (found.session_id, found.event_ms) == (event.session_id, event.at_ms)
        assert (found.kind in events.kinds.start) is isinstance(event, Start)
