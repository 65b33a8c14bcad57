"""State entries as they are stored, and the heartbeats made from them without the rules."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import EndReason, Platform
from sessionization.core.heartbeat_grid import Firing, Grid
from sessionization.core.session_rules import on_timer
from sessionization.core.session_state import Closed, Live, PendingEnd, Rules
from sessionization.spark.operator.codec import (
    decode_entries,
    encode_entries,
    live_if_only_beating,
    output_rows,
    pack_heartbeats,
)

RULES = Rules(heartbeat_ms=1_000)
NOW = 1_000_000
GRID = Grid(RULES.heartbeat_ms, NOW % RULES.heartbeat_ms)
GROUP_VALUE = (
    '[[1,"live","pc","anna",10,20],'
    '[2,"closed","console",null,5,null,9,"timed_out",1,null,30,0],'
    '[-3,"pending_end","pc",null,null,null,7,null,null,3,40,1]]'
)


def test_a_group_is_stored_without_its_last_nulls() -> None:
    entries = decode_entries(json.loads(GROUP_VALUE))
    assert entries == {
        1: Live(10, 20, "anna", Platform.PC),
        2: Closed(5, 9, EndReason.TIMED_OUT, 1, None, None, Platform.CONSOLE, 30, 0),
        -3: PendingEnd(7, 3, None, Platform.PC, 40, 1),
    }
    assert json.dumps(encode_entries(entries), separators=(",", ":")) == GROUP_VALUE
    with pytest.raises(ValueError, match="a state entry cannot be read"):
        decode_entries(json.loads(GROUP_VALUE.replace(",0]", ",0,1]")))


def test_a_device_only_beats_until_an_entry_is_to_be_forgotten_or_to_time_out() -> None:
    live, closed, pending = rows = json.loads(GROUP_VALUE)
    assert live_if_only_beating(rows, closed_by_ms=29, opened_by_ms=19) == [live]
    assert live_if_only_beating([closed, pending], closed_by_ms=29, opened_by_ms=19) == []
    assert live_if_only_beating(rows, closed_by_ms=30, opened_by_ms=19) is None
    assert live_if_only_beating([live, pending], closed_by_ms=30, opened_by_ms=19) == [live]
    assert live_if_only_beating([live, pending], closed_by_ms=40, opened_by_ms=19) is None
    assert live_if_only_beating(rows, closed_by_ms=29, opened_by_ms=20) is None
    unknown = [4, "paused", *pending[2:]], [4, "live", "phone", *live[3:]]
    for row in unknown:
        assert live_if_only_beating([row], closed_by_ms=0, opened_by_ms=0) is None


LIVE_ENTRIES = st.builds(
    Live,
    started_ms=st.integers(NOW - 4_000, NOW),
    opened_ms=st.integers(NOW - 4_000, NOW),
    account_id=st.sampled_from([None, "anna"]),
    platform=st.sampled_from(Platform),
)


@given(
    st.lists(st.dictionaries(st.integers(-2, 2), LIVE_ENTRIES, max_size=3), max_size=4),
    st.integers(NOW - 4_000, NOW + 100),
    st.integers(NOW, NOW + 2_500),
)
def test_heartbeats_made_column_by_column_equal_those_of_the_rules(
    devices: list[dict[int, Live]], set_for_ms: int, now_ms: int
) -> None:
    """Covers one and many live sessions, sessions before their first heartbeat, missed instants and early timers."""
    firing = Firing.from_timer(set_for_ms, now_ms, GRID)
    by_rule = [
        row
        for number, sessions in enumerate(devices)
        for row in output_rows(f"d{number}", on_timer(sessions, firing, RULES), now_ms)
    ]
    live = [(f"d{number}", row) for number, sessions in enumerate(devices) for row in encode_entries(sessions)]
    by_column = [row for chunk in pack_heartbeats(live, firing) for row in zip(*chunk, strict=True)]
    assert sorted(by_column, key=repr) == sorted(by_rule, key=repr)
