"""Messages with the reason for which each goes to quarantine."""

import json
from datetime import UTC, datetime, timedelta

from sessionization.message_limits import MAX_VALUE_BYTES, EventTimeLimits

INGESTED = datetime(2026, 11, 21, 12, 0, 0, 500_000, tzinfo=UTC)
INGESTED_MS = int(INGESTED.timestamp() * 1000)
LIMITS = EventTimeLimits(max_clock_skew_ms=600_000, max_event_age_ms=7 * 86_400_000)
START = {
    "appSessionId": 7,
    "eventId": "ApplicationSessionStart",
    "psnAccountId": "ann",
    "hostPcId": "pc-1",
    "timestamp": "2026-11-21T12:00:00.250Z",
}
END = START | {"eventId": "ApplicationSessionEndBi", "totalFgTime": 42}


def wire(**changes: object) -> bytes:
    """A Start with some fields changed; `...` leaves a field out."""
    return json.dumps({name: value for name, value in (START | changes).items() if value is not ...}).encode()


def end(**changes: object) -> bytes:
    return wire(**(END | changes))


def at(delta_ms: int) -> str:
    return (INGESTED + timedelta(milliseconds=delta_ms)).isoformat(timespec="milliseconds")


REASONS = {
    "a valid Start": (wire(), None),
    "a valid End": (end(), None),
    # oversized
    "64 KiB": (wire(pad="x" * (MAX_VALUE_BYTES - len(wire(pad="")))), None),
    "64 KiB and a byte": (wire(pad="x" * (MAX_VALUE_BYTES - len(wire(pad="")) + 1)), "oversized"),
    "broken and too large": (b"{" * (MAX_VALUE_BYTES + 1), "oversized"),
    "device id of 256 code points": (wire(hostPcId="😀" * 256), None),
    "device id of 257 code points": (wire(hostPcId="😀" * 257), "oversized"),
    "account id of 257 code points": (wire(psnAccountId="a" * 257), "oversized"),
    "long id of the other stream's devices": (wire(openPsid="a" * 257), None),
    "long device id and no session id": (wire(hostPcId="a" * 257, appSessionId=...), "oversized"),
    # malformed_json
    "null": (None, "malformed_json"),
    "empty": (b"", "malformed_json"),
    "white space": (b" ", "malformed_json"),
    "cut short": (wire()[:-1], "malformed_json"),
    "text after the object": (wire() + b" x", "malformed_json"),
    "two objects": (wire() + wire(), "malformed_json"),
    "two objects and a comma": (wire() + b"," + wire(), "malformed_json"),
    "a comma after the object": (wire() + b",", "malformed_json"),
    "a bracket after the object": (wire() + b"]", "malformed_json"),
    "a brace after the object": (wire() + b"}", "malformed_json"),
    "a field after the object": (wire() + b',"a":1', "malformed_json"),
    "an array and more after the object": (wire() + b"],[", "malformed_json"),
    "an object closed and opened again": (wire() + b'},"b":{', "malformed_json"),
    "a comma before the object": (b"," + wire(), "malformed_json"),
    "an array": (b"[" + wire() + b"]", "malformed_json"),
    "a string": (b'"x"', "malformed_json"),
    "the word null": (b"null", "malformed_json"),
    "an empty object": (b"{}", "missing_device_id"),
    "a NUL after the object": (wire() + b"\x00", "malformed_json"),
    "white space around the object": (b" \t" + wire() + b"\n ", None),
    "a vertical tab before the object": (b"\x0b" + wire(), "malformed_json"),
    "single quotes": (wire().replace(b'"', b"'"), "malformed_json"),
    "an unquoted name": (wire().replace(b'"eventId"', b"eventId"), "malformed_json"),
    "a comma at the end": (wire()[:-1] + b",}", "malformed_json"),
    "NaN": (wire(x=float("nan")), "malformed_json"),
    "a leading zero": (wire(appSessionId="@").replace(b'"@"', b"07"), "malformed_json"),
    "a comment": (wire()[:-1] + b"/* */}", "malformed_json"),
    "a raw tab in a string": (wire(x="@").replace(b"@", b"\t"), "malformed_json"),
    "invalid UTF-8": (wire(x="@").replace(b"@", b"\xff"), "malformed_json"),
    "an encoded surrogate": (wire(x="@").replace(b"@", b"\xed\xa0\x80"), "malformed_json"),
    "a byte order mark": (b"\xef\xbb\xbf" + wire(), "malformed_json"),
    "UTF-16": (wire().decode().encode("utf-16-le"), "malformed_json"),
    "nesting without end": (wire(x="@").replace(b'"@"', b"[" * 5_000 + b"]" * 5_000), "malformed_json"),
    "some nesting": (wire(x="@").replace(b'"@"', b"[" * 200 + b"]" * 200), None),
    "unknown fields": (wire(x=1, y={"z": [None, True]}), None),
    "a lone surrogate in an unknown field": (wire(x="@").replace(b"@", b"\\ud800"), None),
    "a repeated field": (wire()[:-1] + b',"appSessionId":7}', None),
    # missing_device_id
    "no device": (wire(hostPcId=...), "missing_device_id"),
    "the other stream's device field": (wire(hostPcId=..., openPsid="ps-1"), "missing_device_id"),
    "null device": (wire(hostPcId=None), "missing_device_id"),
    "a number as device": (wire(hostPcId=7), "missing_device_id"),
    "an object as device": (wire(hostPcId={"id": "pc-1"}), "missing_device_id"),
    "an array as device": (wire(hostPcId=["pc-1"]), "missing_device_id"),
    "true as device": (wire(hostPcId=True), "missing_device_id"),
    "empty device": (wire(hostPcId=""), "missing_device_id"),
    "white space as device": (wire(hostPcId=" \t\u00a0\u2003\n"), "missing_device_id"),
    "a lone surrogate in the device": (wire(hostPcId="a@").replace(b"@", b"\\ud800"), "missing_device_id"),
    "a surrogate pair in the device": (wire(hostPcId="a@").replace(b"@", b"\\ud83d\\ude00"), None),
    "a device with spaces around": (wire(hostPcId=" pc 1 "), None),
    "names are case sensitive": (wire(hostPcId=..., hostpcid="pc-1"), "missing_device_id"),
    # missing_session_id
    "no session": (wire(appSessionId=...), "missing_session_id"),
    "null session": (wire(appSessionId=None), "missing_session_id"),
    "a session id in quotes": (wire(appSessionId="7"), "missing_session_id"),
    "a session id with a fraction": (wire(appSessionId=7.0), "missing_session_id"),
    "a session id with an exponent": (wire(appSessionId="@").replace(b'"@"', b"7e0"), "missing_session_id"),
    "true as session id": (wire(appSessionId=True), "missing_session_id"),
    "the largest session id": (wire(appSessionId=2**63 - 1), None),
    "the smallest session id": (wire(appSessionId=-(2**63)), None),
    "a session id over 64 bits": (wire(appSessionId=2**63), "missing_session_id"),
    "a session id under 64 bits": (wire(appSessionId=-(2**63) - 1), "missing_session_id"),
    "a session id of 100 digits": (wire(appSessionId=10**100), "missing_session_id"),
    "minus zero": (wire(appSessionId="@").replace(b'"@"', b"-0"), None),
    # missing_event_time
    "no time": (wire(timestamp=...), "missing_event_time"),
    "a number as time": (wire(timestamp=1_763_726_400_000), "missing_event_time"),
    "a time without offset": (wire(timestamp="2026-11-21T12:00:00.250"), "missing_event_time"),
    "a space for the T": (wire(timestamp="2026-11-21 12:00:00.250Z"), "missing_event_time"),
    "a small t": (wire(timestamp="2026-11-21t12:00:00.250Z"), "missing_event_time"),
    "no seconds": (wire(timestamp="2026-11-21T12:00Z"), "missing_event_time"),
    "a dot without digits": (wire(timestamp="2026-11-21T12:00:00.Z"), "missing_event_time"),
    "month 13": (wire(timestamp="2026-13-21T12:00:00Z"), "missing_event_time"),
    "30 February": (wire(timestamp="2026-02-30T12:00:00Z"), "missing_event_time"),
    "hour 24": (wire(timestamp="2026-11-20T24:00:00Z"), "missing_event_time"),
    "second 60": (wire(timestamp="2026-11-20T23:59:60Z"), "missing_event_time"),
    "offset hour 24": (wire(timestamp="2026-11-21T12:00:00+24:00"), "missing_event_time"),
    "offset minute 60": (wire(timestamp="2026-11-21T12:00:00+01:60"), "missing_event_time"),
    "offset without colon": (wire(timestamp="2026-11-21T12:00:00+0100"), "missing_event_time"),
    "offset of an hour only": (wire(timestamp="2026-11-21T12:00:00+01"), "missing_event_time"),
    "a line end behind": (wire(timestamp="2026-11-21T12:00:00Z\n"), "missing_event_time"),
    "a space before": (wire(timestamp=" 2026-11-21T12:00:00Z"), "missing_event_time"),
    "other digits": (wire(timestamp="٢026-11-21T12:00:00Z"), "missing_event_time"),
    # unknown_event
    "no event id": (wire(eventId=...), "unknown_event"),
    "another event id": (wire(eventId="ApplicationSessionPause"), "unknown_event"),
    "event id in small letters": (wire(eventId="applicationsessionstart"), "unknown_event"),
    # event time against ingest time
    "as far ahead as may be": (wire(timestamp=at(600_000)), None),
    "a millisecond further ahead": (wire(timestamp=at(600_001)), "event_time_in_future"),
    "as old as may be": (wire(timestamp=at(-7 * 86_400_000)), None),
    "a millisecond older": (wire(timestamp=at(-7 * 86_400_000 - 1)), "event_time_too_old"),
    "year 0000": (wire(timestamp="0000-01-01T00:00:00Z"), "event_time_too_old"),
    "year 9999": (wire(timestamp="9999-12-31T23:59:59.999Z"), "event_time_in_future"),
    # negative_foreground
    "negative foreground": (end(totalFgTime=-1), "negative_foreground"),
    "negative foreground on a Start": (wire(totalFgTime=-1), None),
    # the order of the reasons
    "nothing right": (b'{"eventId":"x"}', "missing_device_id"),
    "no time and no event id": (wire(timestamp=..., eventId=...), "missing_event_time"),
    "unknown event in the future": (wire(eventId="x", timestamp=at(900_000)), "unknown_event"),
    "future and negative foreground": (end(timestamp=at(900_000), totalFgTime=-1), "event_time_in_future"),
}
