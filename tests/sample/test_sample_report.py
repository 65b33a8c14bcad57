"""The report on a sample says what a map understood, and what to change."""

import json
from typing import Any

import pytest

from sessionization.durations import DAY_MS
from sessionization.sample.read_message import Message
from sessionization.sample.sample_report import report_on
from tests.support.event_maps import ARCADE, OFFSETS, map_of
from tests.support.wire_cases import INGESTED_MS, LIMITS
from tests.support.wire_maps import GAME, OFFSET, game


def lines_of(text: str, stream: str, *values: bytes) -> list[str]:
    messages = [Message(stream, value, INGESTED_MS, f"message {at}") for at, value in enumerate(values, start=1)]
    return list(report_on(messages, map_of(text), LIMITS, has_activity=False).lines)


def arcade(**changes: object) -> list[str]:
    return lines_of(ARCADE, "arcade", game(), game(**changes))


def test_the_report_counts_messages_kinds_devices_and_the_way_of_the_events() -> None:
    others = [game(type="session_end", ts=INGESTED_MS - 1_250), game(type="level_up"), b"oops"]
    assert lines_of(ARCADE, "arcade", game(), *others) == [
        "4 messages: 2 events, 1 skipped, 1 would go to quarantine",
        "kinds: session_start 1 (start), session_end 1 (end), level_up 1 (skipped)",
        "kinds that were never there: session_resume",
        "malformed_json 1: message 4: oops",
        "devices: 1; session ids per device: median 1, most 1 (blue:h1)",
        "most frequent device id: blue:h1 in 100% of the events",
        "seconds from event time to arrival: p1 0.2, median 0.2, p99 1.2 (negative: the clock is ahead)",
    ]


REPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "another format": (
        {"ts": "2026-11-21T12:00:00Z"},
        'missing_event_time 1: message 2: ts holds "2026-11-21T12:00:00Z"; '
        "event_time.format iso8601 would read it, epoch_ms does not",
    ),
    "seconds": (
        {"ts": INGESTED_MS / 1_000},
        f"missing_event_time 1: message 2: ts holds {INGESTED_MS / 1_000}; "
        "event_time.format epoch_s would read it, epoch_ms does not",
    ),
    "no time at all": ({"ts": "today"}, 'missing_event_time 1: message 2: ts holds "today"'),
    "a part of an id": (
        {"tenant": None},
        'missing_device_id 1: message 2: tenant is absent, device."hw.id" holds "h1"',
    ),
    "a text as session id": (
        {"session": {"number": "a-b"}},
        'missing_session_id 1: message 2: session.number holds "a-b"; session_id_type: text would read it',
    ),
    "another platform": (
        {"device": {"hw.id": "h1", "os": "Switch"}},
        'unknown_platform 1: message 2: device.os holds "Switch"; add it to streams.arcade.platform.values',
    ),
    "a clock that is ahead": (
        {"ts": INGESTED_MS + DAY_MS},
        f"event_time_in_future 1: message 2: ts holds {INGESTED_MS + DAY_MS}; its time is compared with the time at "
        "which the message arrived, of a file its modification time",
    ),
    "an old sample": (
        {"ts": INGESTED_MS - 8 * DAY_MS},
        f"event_time_too_old 1: message 2: ts holds {INGESTED_MS - 8 * DAY_MS}; its time is compared with the time at "
        "which the message arrived, of a file its modification time; of an older sample, set that back: "
        "touch -d 2026-01-31 FILE",
    ),
    "no kind": ({"type": 7}, "unknown_event 1: message 2: type holds 7"),
}


@pytest.mark.parametrize(("changes", "line"), REPORTED.values(), ids=REPORTED)
def test_a_reason_shows_the_first_message_that_has_it(changes: dict[str, Any], line: str) -> None:
    assert line in arcade(**changes)


def test_another_kind_of_event_is_advised_where_the_map_does_not_skip_it() -> None:
    [line] = [
        line
        for line in lines_of(OFFSETS, "games", json.dumps(OFFSET | {"kind": "level"}).encode())
        if line.startswith("unknown_event")
    ]
    assert line.endswith('kind holds "level"; add it to kinds, or write other_events: skip')


def test_all_platforms_that_are_not_in_the_map_are_named_at_once() -> None:
    systems = ["Switch", "PS5", "Switch", "Deck", None]
    values = [game("device", to={"hw.id": f"h{number}", "os": system}) for number, system in enumerate(systems)]
    assert "platforms that are not in the map: Switch 2, Deck 1" in lines_of(ARCADE, "arcade", *values)


def test_a_field_that_no_message_has_is_named_with_its_place_in_the_map() -> None:
    [line] = [line for line in arcade(user=None) if line.startswith("fields")] or [""]
    assert line == "", "one message has it"
    lines = lines_of(ARCADE, "arcade", game(user=None), game(user={"name": "ann"}))
    assert "fields that were never there: user.id (account_id)" in lines


@pytest.mark.parametrize("name", ["unknown", "00000000-0000-0000-0000-000000000000", "N/A"])
def test_a_device_id_that_looks_like_a_default_is_named(name: str) -> None:
    values = [json.dumps(OFFSET | {"id": device}).encode() for device in ("a", name)]
    assert (
        f"device ids that look like a default: {name} in 1 events; all their players would be one device"
        in lines_of(OFFSETS, "games", *values)
    )


def test_a_device_that_sends_a_large_share_is_named() -> None:
    values = [json.dumps(OFFSET | {"id": f"d{number}"}).encode() for number in [*range(30), *[7] * 10]]
    [line] = [line for line in lines_of(OFFSETS, "games", *values) if line.startswith("most frequent")]
    assert line == (
        "most frequent device id: d7 in 28% of the events: all its players would be one device; "
        "see that it is no default"
    )


def test_without_any_message_the_report_says_so() -> None:
    assert lines_of(ARCADE, "arcade") == [
        "0 messages: 0 events, 0 skipped, 0 would go to quarantine",
        "kinds: none, for type holds no text",
        "kinds that were never there: session_start, session_resume, session_end",
    ]
    assert GAME["type"] in lines_of(ARCADE, "arcade", game())[1]


def test_what_no_program_could_print_or_count_is_said_all_the_same() -> None:
    seconds = ARCADE.replace("epoch_ms", "epoch_s")
    arrived = INGESTED_MS // 1_000
    lines = lines_of(seconds, "arcade", *(game(ts=ts) for ts in (arrived, 10**400)), game(type="\ud800", ts=arrived))
    "\n".join(lines).encode()
    assert any("\\ud800" in line for line in lines)
    assert any(line.startswith("seconds from event time to arrival: p1 0.") for line in lines)
