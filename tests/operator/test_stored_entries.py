"""State entries as they are stored, and what a timer does to them in a group: by the rules, or column by column."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import EndReason, Platform
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.heartbeats import heartbeats
from sessionization.core.session_rules import on_timer
from sessionization.core.session_state import Closed, Expiry, Live, PendingEnd, Rules, SessionState, expiry_at
from sessionization.spark.operator.output_rows import change_rows, pack_columns
from sessionization.spark.operator.stored_entries import (
    decode_entries,
    encode_entry,
    has_nothing_over,
    live_sessions,
)

RULES = Rules(heartbeat_ms=1_000, session_timeout_ms=3_000, late_retention_ms=2_000)
NOW = 1_000_000
GRID = Grid(RULES.heartbeat_ms, NOW % RULES.heartbeat_ms)
STORED = json.loads(
    '[[1,"live","pc","anna",10,20],'
    '[2,"closed","console",null,5,null,9,"timed_out",1,null,30,0],'
    '[-3,"pending_end","pc",null,null,null,7,null,null,3,40,1]]'
)


def test_entries_are_read_without_their_last_nulls() -> None:
    assert decode_entries(STORED) == {
        1: Live(10, 20, "anna", Platform.PC),
        2: Closed(5, 9, EndReason.TIMED_OUT, 1, None, None, Platform.CONSOLE, 30, 0),
        -3: PendingEnd(7, 3, None, Platform.PC, 40, 1),
    }
    with pytest.raises(ValueError, match="a state entry cannot be read"):
        decode_entries([[*STORED[1], 1]])


def test_a_device_only_beats_until_an_entry_is_to_be_forgotten_or_to_time_out() -> None:
    live, closed, pending = STORED
    assert has_nothing_over(STORED, Expiry(opened_by_ms=19, remembered_by_ms=29))
    assert not has_nothing_over(STORED, Expiry(opened_by_ms=19, remembered_by_ms=30))
    assert not has_nothing_over(STORED, Expiry(opened_by_ms=20, remembered_by_ms=29))
    assert has_nothing_over([live, pending], Expiry(opened_by_ms=19, remembered_by_ms=39))
    assert not has_nothing_over([live, pending], Expiry(opened_by_ms=19, remembered_by_ms=40))
    for unknown in ([4, "paused", *pending[2:]], [4, "live", "phone", *live[3:]]):
        assert not has_nothing_over([unknown], Expiry(opened_by_ms=0, remembered_by_ms=0))
    assert list(live_sessions({"a": [closed, pending], "b": STORED})["device_id"]) == ["b"]


INSTANTS = st.integers(NOW - 4_000, NOW)
ENTRIES = st.one_of(
    st.builds(Live, INSTANTS, INSTANTS, st.sampled_from([None, "anna"]), st.sampled_from(Platform)),
    st.builds(
        Closed,
        *(st.just(1), st.just(2), st.sampled_from(EndReason), st.just(0), st.none(), st.none()),
        *(st.sampled_from(Platform), INSTANTS, st.just(0)),
    ),
    st.builds(PendingEnd, st.just(1), st.none(), st.none(), st.sampled_from(Platform), INSTANTS, st.just(0)),
)


@given(
    st.lists(st.dictionaries(st.integers(-2, 2), ENTRIES, max_size=3), max_size=4),
    st.integers(NOW - 4_000, NOW + 100),
    st.integers(NOW, NOW + 2_500),
)
def test_a_device_with_nothing_over_does_column_by_column_what_the_rules_do(
    devices: list[Mapping[int, SessionState]], set_for_ms: int, now_ms: int
) -> None:
    """Covers one and many live sessions, sessions before their first heartbeat, missed instants and early timers."""
    firing, expiry = Firing.from_timer(set_for_ms, now_ms, GRID), expiry_at(now_ms, RULES)
    stored = {
        f"d{number}": [[session_id, *encode_entry(entry)] for session_id, entry in sessions.items()]
        for number, sessions in enumerate(devices)
    }
    assert [decode_entries(entries) for entries in stored.values()] == devices
    by_rule = {device_id: on_timer(decode_entries(entries), firing, RULES) for device_id, entries in stored.items()}
    beating = {device_id: entries for device_id, entries in stored.items() if has_nothing_over(entries, expiry)}
    assert all(bool(by_rule[device_id].updated) is (device_id not in beating) for device_id in stored)
    expected = [row for device_id in beating for row in change_rows(device_id, by_rule[device_id], now_ms)]
    by_column = pack_columns(heartbeats(live_sessions(beating), firing))
    assert sorted((row for packed in by_column for row in zip(*packed, strict=True)), key=repr) == sorted(
        expected, key=repr
    )
