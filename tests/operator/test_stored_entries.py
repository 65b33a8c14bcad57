"""What the state stores: entries, and buckets, which equal the JSON objects that are their texts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import EndReason, Platform
from sessionization.core.session_state import Closed, Expiry, Live, PendingEnd, Signs
from sessionization.spark.operator.bucket import Bucket
from sessionization.spark.operator.stored_entries import (
    decode_entries,
    decode_entry,
    encode_entry,
    has_nothing_over,
    live_sessions,
)

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
    assert has_nothing_over(STORED, Expiry(opened_by_ms=19, remembered_by_ms=29), 0)
    assert not has_nothing_over(STORED, Expiry(opened_by_ms=19, remembered_by_ms=30), 0)
    assert not has_nothing_over(STORED, Expiry(opened_by_ms=20, remembered_by_ms=29), 0)
    assert has_nothing_over([live, pending], Expiry(opened_by_ms=19, remembered_by_ms=39), 0)
    assert not has_nothing_over([live, pending], Expiry(opened_by_ms=19, remembered_by_ms=40), 0)
    assert not has_nothing_over([[4, "paused", *pending[2:]]], Expiry(opened_by_ms=0, remembered_by_ms=0), 0)
    assert list(live_sessions({"a": [closed, pending], "b": STORED})["device_id"]) == ["b"]


ACTIVE = json.loads(
    '[[1,"live","pc","anna",10,20,25,null,0,null,30],'
    '[2,"implied_live","pc",null,10,20,25,null,2,null,30,28,["chess"]],'
    '[3,"implied_closed","pc",null,5,6,9,"inactive",1,null,30,0]]'
)


def test_signs_of_life_are_in_the_fields_that_a_live_session_does_not_need() -> None:
    entries = {
        1: Live(10, 20, "anna", Platform.PC, (None,), Signs(25, 30)),
        2: Live(10, 20, None, Platform.PC, ("chess",), Signs(25, 30, is_implied=True, resumed_ms=28, revision=2)),
        3: Closed(5, 9, EndReason.INACTIVE, 1, None, None, Platform.PC, 30, 0, (None,), 6, is_implied=True),
    }
    assert decode_entries(ACTIVE, 1) == entries
    for entry in entries.values():
        assert decode_entry(encode_entry(entry), 1) == entry


@pytest.mark.parametrize("labels", [[], [["chess"]]])
def test_a_device_only_beats_while_its_session_was_heard_of(labels: list[list[str]]) -> None:
    heard, resumed, _ = ACTIVE
    heard, resumed = [*heard, *labels], [*resumed[:-1], *labels]
    never_opened = [*STORED[0], *labels]

    def only_beats(entry: list[object], heard_by_ms: int, first_due_ms: int = 29) -> bool:
        return has_nothing_over([entry], Expiry(99, 29, heard_by_ms), first_due_ms)

    assert only_beats(heard, 29)
    assert not only_beats(heard, 30)
    assert only_beats(resumed, 29)
    assert not only_beats(resumed, 29, first_due_ms=28)
    assert not only_beats(never_opened, 0), "it has no signs yet"
    assert not has_nothing_over([heard], Expiry(20, 29), 29), "without the timeout"
    columns = live_sessions({"a": [heard], "b": [resumed]}, has_signs=True)
    assert (columns["device_id"], columns["last_active_ms"]) == (["a", "b"], [heard[6], resumed[6]])
    assert "last_active_ms" not in live_sessions({"a": [heard]})


# Ids that are parts of one another, or that look like JSON's own characters.
PLAIN_IDS = st.text(alphabet="ab.:-_", min_size=1, max_size=3)
DEVICE_IDS = PLAIN_IDS | st.text(alphabet='ab.:-,"\\{[]}é\n', max_size=3)
ACCOUNTS = st.text(alphabet='ab:,"\\{[]}é\n', max_size=12) | st.builds('x,"{}":[['.format, DEVICE_IDS)
ENTRIES = st.one_of(
    st.builds(Live, st.integers(0, 9), st.integers(0, 9), st.none() | ACCOUNTS, st.sampled_from(Platform)),
    st.builds(
        Closed,
        *(st.integers(0, 9), st.integers(0, 9), st.sampled_from(EndReason), st.integers(0, 9), st.none()),
        *(st.none() | ACCOUNTS, st.sampled_from(Platform), st.integers(0, 9), st.integers(0, 9)),
    ),
)
SESSIONS = st.dictionaries(st.integers(-9, 9), ENTRIES, min_size=1, max_size=2).map(
    lambda entries: [[session_id, *encode_entry(entry)] for session_id, entry in entries.items()]
)
DEVICES = st.dictionaries(DEVICE_IDS, SESSIONS, max_size=6)


@given(DEVICES, st.lists(DEVICE_IDS))
def test_a_device_is_found_in_the_text(devices: dict[str, list], others: list[str]) -> None:
    text = json.dumps(devices, separators=(",", ":"), ensure_ascii=False)
    for device_id in (*devices, *others):
        assert Bucket("bucket", text).get(device_id) == devices.get(device_id), device_id
    bucket = Bucket("bucket", text)
    assert all(bucket.get(device_id) == devices.get(device_id) for device_id in (*devices, *others))
    assert bucket.devices() == devices
    assert all(bucket.get(device_id) == devices.get(device_id) for device_id in (*devices, *others))


def test_a_device_is_found_without_parsing_the_others() -> None:
    """So damage to another device goes unnoticed, until that one is needed."""
    bucket = Bucket("group 7, bucket 3", '{"a":[[1]],"b":[[2}')
    assert bucket.get("a") == [[1]]
    assert bucket.get("c") is None
    with pytest.raises(RuntimeError, match="group 7, bucket 3 of the state cannot be read"):
        bucket.get("b")
    with pytest.raises(RuntimeError, match="group 7, bucket 3 of the state cannot be read"):
        bucket.devices()


def test_a_text_of_which_many_devices_are_needed_is_parsed() -> None:
    bucket = Bucket("bucket", '{"a":[[1]],"b":[[2}')
    with pytest.raises(RuntimeError, match="bucket of the state cannot be read"):
        [bucket.get("a") for _ in range(10)]


@pytest.mark.parametrize("text", ["", "{", '{"a":[[1]]', '"a":[[1]]}'])
def test_a_text_without_the_outer_braces_is_refused(text: str) -> None:
    with pytest.raises(RuntimeError, match="bucket of the state cannot be read"):
        Bucket("bucket", text)


@pytest.mark.parametrize("text", ['{\n"a":[[1]],\n"b":[[2]]}', '{ "a": [[1]], "b": [[2]] }'])
def test_a_text_with_spaces_is_parsed(text: str) -> None:
    bucket = Bucket("bucket", text)
    assert (bucket.get("a"), bucket.get("b")) == ([[1]], [[2]])
