"""Which buckets of a group are read, parsed and written, and when."""

import json

import pytest

from sessionization.core.events import End, Event, Platform, Start
from sessionization.core.heartbeat_grid import grid_for_key
from tests.support.operator_engine import NOW, RULES, Engine, end, start

BUCKETS = 64
"""Written out, because it must never change: checkpoints are stored with it."""


def test_an_event_reads_its_own_bucket_of_a_group_and_a_heartbeat_reads_the_whole_group() -> None:
    """An event reads only the recent devices and its bucket, a heartbeat reads the whole group in one call."""
    engine = Engine(RULES, 1)
    others = [(f"other {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(500)]

    def calls(now_ms: int, *events: tuple[str, Event]) -> dict[str, int]:
        engine.micro_batch(now_ms, events, lambda _: "0")
        return engine.calls

    at_ms = grid_for_key("0", RULES.heartbeat_ms).after(NOW)
    assert calls(at_ms, *others) == {"iterator": 1, "updateValue": 1, "registerTimer": 1}
    assert calls(at_ms + 1, start(1)) == {"getValue": 2, "updateValue": 1}
    assert calls(at_ms + 2, start(1)) == {"getValue": 1}
    assert calls(at_ms + 1_000) == {"iterator": 1, "updateValue": BUCKETS + 1, "registerTimer": 1}
    assert calls(at_ms + 1_001, end(1)) == {"getValue": 2, "updateValue": 1}
    assert calls(at_ms + 2_000) == {"iterator": 1, "updateValue": 2, "registerTimer": 1}
    assert calls(at_ms + 3_000) == {"iterator": 1, "registerTimer": 1}


def test_when_too_many_devices_are_recent_each_bucket_is_written_once() -> None:
    engine = Engine(RULES, 1)
    starts = [(f"device {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(1_200)]
    engine.micro_batch(NOW, starts[:1_000], lambda _: "0")
    assert {tuple(key) for key in engine.state("0")} == {(-1,)}
    engine.micro_batch(NOW + 1, starts[1_000:], lambda _: "0")
    assert engine.calls == {"iterator": 1, "updateValue": BUCKETS + 1}
    assert {tuple(key) for key in engine.state("0")} == {(bucket,) for bucket in range(-1, BUCKETS)}
    engine.micro_batch(NOW + 2, starts, lambda _: "0")
    assert engine.calls == {"iterator": 1}
    engine.micro_batch(NOW + 10_000, [], lambda _: "0")
    assert engine.calls == {"iterator": 1, "updateValue": BUCKETS, "registerTimer": 1}
    assert {entry[1] for entry in stored(engine)} == {"closed"}
    engine.micro_batch(NOW + 20_000, [], lambda _: "0")
    assert engine.calls == {"iterator": 1, "removeKey": BUCKETS + 1}
    assert engine.state("0") == {}


def devices_in(engine: Engine) -> list[tuple[str, list]]:
    """All devices in the state of the group, with their entries."""
    return [device for (text,) in engine.state("0").values() for device in json.loads(text).items()]


def stored(engine: Engine) -> list[list]:
    """All entries in the state of the group."""
    return [entry for _, entries in devices_in(engine) for entry in entries]


@pytest.mark.parametrize("broken", [0, 1])
def test_the_error_for_a_broken_bucket_names_no_device(broken: int) -> None:
    """One of two buckets is broken, the first or the second that the timer reads."""
    engine = Engine(RULES, 1)
    engine.micro_batch(NOW, [start(1)], lambda _: "0")
    (timer_ms,) = engine.timers("0")
    texts = ['{"a":[[1,"live","pc",null,1,2]]}'] * 2
    texts[broken] = '{"a":[[1,"li}'
    engine.state("0").update({(number,): (text,) for number, text in enumerate(texts)})
    with pytest.raises(Exception, match=f"(?<!: )group 0, bucket {broken} of the state cannot be read"):
        engine.micro_batch(timer_ms, [], lambda _: "0")


def test_a_group_counts_its_entries_when_its_timer_fires() -> None:
    """Counts live, closed and pending entries after the timer.

    With one device per key nothing is counted, because a row of state is an entry.
    """
    engine = Engine(RULES, 1)
    others = [(f"other {n}", Start(n, NOW, Platform.PC, NOW)) for n in range(500)]
    at_ms = grid_for_key("0", RULES.heartbeat_ms).after(NOW)

    def counted(now_ms: int, *events: tuple[str, Event]) -> dict[str, int]:
        engine.micro_batch(now_ms, events, lambda _: "0")
        return engine.entries

    assert counted(at_ms, *others, start(1), end(9)) == {}
    assert counted(at_ms + 1_000) == {"0": 502}
    assert counted(at_ms + 1_001, end(1)) == {}
    assert counted(at_ms + 2_000) == {"0": 501}, "the End that waited is forgotten, what was closed is not"
    assert counted(at_ms + 4_000) == {"0": 500}
    by_device = Engine(RULES)
    by_device.micro_batch(NOW, [start(1)])
    by_device.micro_batch(NOW + 1_000, [])
    assert by_device.entries == {}
