"""A bucket equals a dictionary of devices, and its text is JSON that other programs and earlier versions read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionization.core.events import EndReason, Platform
from sessionization.core.session_state import Closed, Live, SessionState
from sessionization.spark.operator.bucket import FORGOTTEN, Bucket
from sessionization.spark.operator.codec import encode_entries

TRICKY = st.text(alphabet='":,[]{}\\\n\u2028 live1d', max_size=8)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | TRICKY
ENTRIES = st.one_of(
    st.builds(Live, st.integers(0, 9), st.integers(0, 9), st.none() | TEXTS, st.sampled_from(Platform)),
    st.builds(
        Closed,
        *(st.integers(0, 9), st.integers(0, 9), st.sampled_from(EndReason), st.integers(0, 9), st.none()),
        *(st.none() | TEXTS, st.sampled_from(Platform), st.integers(0, 9), st.integers(0, 9)),
    ),
)
DEVICES = st.dictionaries(TEXTS, st.none() | st.dictionaries(st.integers(-9, 9), ENTRIES, min_size=1, max_size=3))

Devices = dict[str, dict[int, SessionState] | None]


def rows(sessions: dict[int, SessionState] | None) -> list[list[object]] | None:
    return None if sessions is None else [list(row) for row in encode_entries(sessions)]


def filled(devices: Devices) -> Bucket:
    bucket = Bucket("bucket")
    for device_id, sessions in devices.items():
        bucket.put(device_id, json.dumps(rows(sessions), separators=(",", ":"), ensure_ascii=False))
    return bucket


def check_equal(bucket: Bucket, devices: Devices) -> None:
    expected = {device_id: rows(sessions) for device_id, sessions in devices.items()}
    assert bucket.parsed() == json.loads(bucket.text()) == expected
    assert {device_id: json.loads(sessions) for device_id, sessions in bucket.items()} == expected
    assert len(bucket) == len(devices)
    assert all(
        device_id in bucket and json.loads(bucket.get(device_id)) == expected[device_id] for device_id in devices
    )
    assert set(bucket.live_devices()) == {
        device_id
        for device_id, entries in devices.items()
        if any(isinstance(e, Live) for e in (entries or {}).values())
    }


@given(DEVICES)
def test_a_bucket_is_read_as_it_was_written(devices: Devices) -> None:
    check_equal(filled(devices), devices)
    check_equal(Bucket("bucket", filled(devices).text()), devices)


@given(DEVICES)
def test_the_text_of_an_earlier_version_has_one_line(devices: Devices) -> None:
    one_line = json.dumps(
        {device_id: rows(sessions) for device_id, sessions in devices.items()},
        separators=(",", ":"),
        ensure_ascii=False,
    )
    check_equal(Bucket("bucket", one_line), devices)


@given(DEVICES, DEVICES, st.sets(TEXTS))
def test_devices_are_replaced_and_removed(before: Devices, after: Devices, removed: set[str]) -> None:
    bucket = Bucket("bucket", filled(before).text())
    for device_id, sessions in filled(after).items():
        bucket.put(device_id, sessions)
    for device_id in removed:
        bucket.remove(device_id)
    expected = {device_id: entries for device_id, entries in (before | after).items() if device_id not in removed}
    check_equal(bucket, expected)
    check_equal(Bucket("bucket", bucket.text()), expected)
    assert all(bucket.get(device_id) is None and device_id not in bucket for device_id in removed)


@pytest.mark.parametrize("keep", range(1, 130))
def test_a_text_that_was_cut_off_is_refused(keep: int) -> None:
    bucket = filled({"a": {1: Live(1, 2, None, Platform.PC)}, "b": None, "c": {2: Live(3, 4, "{},", Platform.PC)}})
    cut_off = Bucket("group 7, bucket 3", bucket.text()[:keep])
    assert keep < len(bucket.text())
    for _ in range(2):
        with pytest.raises(RuntimeError, match="group 7, bucket 3 of the state cannot be read"):
            cut_off.get("a")


def test_a_text_has_one_form_as_json() -> None:
    """A device is found by its JSON, so all versions of the library must write the same."""
    for text in map(chr, [*range(0x100), 0x2028, 0x2029, 0xFFFF, 0x1F3AE]):
        bucket = Bucket("bucket")
        bucket.put(text, FORGOTTEN)
        assert bucket.text() == "{\n" + json.dumps(text, ensure_ascii=False) + ":null}"


def test_a_forgotten_device_has_no_sessions() -> None:
    bucket = Bucket("bucket")
    bucket.put("a", FORGOTTEN)
    check_equal(bucket, {"a": None})
