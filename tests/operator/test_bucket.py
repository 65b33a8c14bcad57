"""A bucket equals a dictionary of devices, and its text is JSON that other programs and earlier versions read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import EndReason, Platform
from sessionization.core.session_state import Closed, Live
from sessionization.spark.operator.bucket import Bucket
from sessionization.spark.operator.codec import encode_entries

# Ids that are parts of one another, or that look like JSON's own characters.
DEVICE_IDS = st.text(alphabet='ab.:-,"\\{[]}é', max_size=3) | st.text(alphabet="ab:", max_size=2)
TEXTS = st.text(alphabet='ab:,"\\{[]}é\n', max_size=12) | st.builds('x,"{}":[['.format, DEVICE_IDS)
ENTRIES = st.one_of(
    st.builds(Live, st.integers(0, 9), st.integers(0, 9), st.none() | TEXTS, st.sampled_from(Platform)),
    st.builds(
        Closed,
        *(st.integers(0, 9), st.integers(0, 9), st.sampled_from(EndReason), st.integers(0, 9), st.none()),
        *(st.none() | TEXTS, st.sampled_from(Platform), st.integers(0, 9), st.integers(0, 9)),
    ),
)
SESSIONS = st.dictionaries(st.integers(-9, 9), ENTRIES, min_size=1, max_size=2).map(
    lambda entries: [list(row) for row in encode_entries(entries)]
)
DEVICES = st.dictionaries(DEVICE_IDS, SESSIONS, max_size=6)
CHANGES = st.lists(st.tuples(DEVICE_IDS, st.none() | SESSIONS), max_size=8)


def text_of(devices: dict[str, list]) -> str:
    """The text as earlier versions wrote it."""
    return json.dumps(devices, separators=(",", ":"), ensure_ascii=False)


@given(DEVICES, st.lists(DEVICE_IDS))
def test_a_device_is_found_in_the_text(devices: dict[str, list], others: list[str]) -> None:
    bucket = Bucket("bucket", text_of(devices))
    for device_id in (*devices, *others):
        assert bucket.get(device_id) == devices.get(device_id), device_id
    assert bucket.devices() == devices
    assert bool(bucket) == bool(devices)


@given(DEVICES, CHANGES)
def test_devices_are_replaced_and_removed(devices: dict[str, list], changes: list[tuple[str, list | None]]) -> None:
    bucket = Bucket("bucket", text_of(devices))
    expected = dict(devices)
    for device_id, sessions in changes:
        if sessions is None:
            bucket.remove(device_id)
            expected.pop(device_id, None)
        else:
            bucket.put(device_id, sessions)
            expected[device_id] = sessions
        assert bucket.get(device_id) == sessions
        assert json.loads(bucket.text()) == expected
        assert bool(bucket) == bool(expected)
    assert Bucket("bucket", bucket.text()).devices() == bucket.devices() == expected


@pytest.mark.parametrize("parse_first", [False, True])
def test_a_change_of_one_device_leaves_the_others(*, parse_first: bool) -> None:
    bucket = Bucket("bucket", '{"a":[[1]],"b":[[2]],"c":[[3]]}')
    if parse_first:
        bucket.devices()
    bucket.put("b", [[4]])
    assert bucket.text() in ('{"a":[[1]],"c":[[3]],"b":[[4]]}', '{"a":[[1]],"b":[[4]],"c":[[3]]}')
    bucket.remove("a")
    bucket.remove("c")
    assert bucket.text() == '{"b":[[4]]}'
    bucket.remove("b")
    assert (bucket.text(), bool(bucket)) == ("{}", False)


WHOLE = '{"a":[[1,"live","pc","{,",1,2]],"b":[[2,"live","pc",null,3,4]]}'


@pytest.mark.parametrize("keep", range(len(WHOLE)))
@pytest.mark.parametrize("device_id", ["b", "é"])
def test_a_text_that_was_cut_off_is_refused(keep: int, device_id: str) -> None:
    with pytest.raises(RuntimeError, match="group 7, bucket 3 of the state cannot be read"):
        Bucket("group 7, bucket 3", WHOLE[:keep]).get(device_id)
