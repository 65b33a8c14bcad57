"""A message of a sample means what it means to the job: the same cases, each with the same reason."""

from typing import Any

import pytest
import yaml

from sessionization.core.events import Start
from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import DEFAULT, package_map
from sessionization.message_limits import SKIPPED
from sessionization.sample.read_message import read_message
from tests.support.event_maps import ARCADE, HANDHELD, OFFSETS
from tests.support.wire import read
from tests.support.wire_cases import INGESTED_MS, LIMITS, REASONS
from tests.support.wire_maps import ARCADE_CASES, OFFSET_CASES, PHONE_CASES, TABLET_CASES

MAPS: dict[str, dict[str, Any]] = {text: yaml.safe_load(text) for text in (ARCADE, HANDHELD, OFFSETS)}
CASES = [
    pytest.param(text, stream, value, id=f"{stream}: {name}")
    for text, stream, cases in (
        (ARCADE, "arcade", ARCADE_CASES),
        (HANDHELD, "phones", PHONE_CASES),
        (HANDHELD, "tablets", TABLET_CASES),
        (OFFSETS, "games", OFFSET_CASES),
        (DEFAULT, "pc_sessions", REASONS),
    )
    for name, (value, _) in cases.items()
]


@pytest.mark.parametrize(("text", "stream", "value"), CASES)
def test_a_message_of_a_sample_is_read_as_the_contract_says(text: str, stream: str, value: bytes | None) -> None:
    """The second implementation is held to the expected values of these cases beside the job's parser."""
    if text == DEFAULT:
        events, expected = package_map(DEFAULT), read(stream, value, INGESTED_MS)
    else:
        events = EventMap.model_validate(yaml.load(text, yaml.BaseLoader))
        expected = read(stream, value, INGESTED_MS, MAPS[text])
    found = read_message(value or b"", stream, INGESTED_MS, events, LIMITS)
    if expected is None:
        assert found.reason == SKIPPED
    elif isinstance(expected, str):
        assert found.reason == expected
    else:
        device_id, event = expected
        assert (found.reason, found.device_id) == (None, device_id)
        assert (found.session_id, found.event_ms) == (event.session_id, event.at_ms)
        assert (found.kind in events.kinds.start) is isinstance(event, Start)
