"""Activities of live sessions on stored entries: the same as the core decides, or left to it."""

import random
from dataclasses import replace

import pytest

from sessionization.core.events import Activity, End, Event, Platform, Start
from sessionization.core.session_rules import on_events
from sessionization.core.session_state import Rules
from sessionization.spark.operator.heard_sessions import take_activities
from sessionization.spark.operator.stored_entries import StoredEntry, decode_entries, encode_entries

NOW = 1_000_000
RULES = Rules(inactivity_timeout_ms=60_000, late_retention_ms=60_000)


def activity(session_id: int, at_ms: int) -> Activity:
    return Activity(session_id, at_ms, Platform.PC, NOW, "ann", ("chess",))


def stored(events: list[Event], now_ms: int = NOW - 10_000, rules: Rules = RULES) -> list[StoredEntry]:
    entries = on_events({}, events, now_ms, rules).sessions
    return [(session_id, *value) for session_id, value in encode_entries(entries).items() if value is not None]


START = Start(7, NOW - 50_000, Platform.PC, NOW - 49_000, "ann", ("chess",))


def random_event(rng: random.Random, kind: type[Event]) -> Event:
    event = kind(rng.randrange(2), NOW - rng.randrange(0, 90_000, 10_000), Platform.PC, NOW - 30_000, "ann")
    return replace(event, labels=("chess",))


@pytest.mark.parametrize("seed", range(300))
def test_what_is_taken_ends_as_the_core_decides_and_all_else_is_left(seed: int) -> None:
    rng = random.Random(seed)
    entries = stored([random_event(rng, rng.choice([Start, End, Activity])) for _ in range(rng.randrange(4))])
    kinds = rng.choice([[Activity], [Activity, Activity, Start, End]])
    given = [random_event(rng, rng.choice(kinds)) for _ in range(1 + rng.randrange(3))]
    events = {"d": list(given)}
    heard = take_activities(events, {"d": entries}, NOW, RULES)
    decided = on_events(decode_entries(entries, 1), given, NOW, RULES)
    if events:
        assert events == {"d": given}
        assert not heard.updates
        assert heard.tally.events == 0
    else:
        assert decided.changes == []
        assert heard.tally == decided.tally
        updates = {key: tuple(value) for key, value in heard.updates.get("d", {}).items() if value is not None}
        assert updates == {key: tuple(value) for key, value in encode_entries(decided.updated).items() if value}


@pytest.mark.parametrize(
    ("events", "rules", "is_taken"),
    [
        ([activity(7, NOW - 40_000), activity(7, NOW - 40_000), activity(7, NOW)], RULES, True),
        ([activity(7, NOW - 90_000)], RULES, True),
        ([activity(7, NOW), activity(8, NOW)], RULES, False),
        ([activity(8, NOW)], RULES, False),
        ([activity(7, NOW), End(7, NOW, Platform.PC, NOW)], RULES, False),
        ([activity(7, NOW)], replace(RULES, max_sessions_per_device=0), False),
    ],
)
def test_a_device_is_taken_where_only_its_live_session_was_heard(
    events: list[Event], rules: Rules, *, is_taken: bool
) -> None:
    remaining = {"d": events}
    take_activities(remaining, {"d": stored([START])}, NOW, rules)
    assert (remaining == {}) is is_taken


def test_a_live_session_from_before_signs_of_life_is_left_to_the_core() -> None:
    remaining: dict[str, list[Event]] = {"d": [activity(7, NOW)]}
    take_activities(remaining, {"d": stored([START], rules=Rules())}, NOW, RULES)
    assert remaining
    shortened = [entry[: entry.index(None)] for entry in stored([START], rules=Rules())]
    take_activities(remaining, {"d": shortened}, NOW, RULES)
    assert remaining
