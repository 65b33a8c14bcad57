"""Messages of other event maps than `default`, with what each becomes: a reason, None if skipped, or values."""

import json
from copy import deepcopy
from typing import Any

from tests.support.event_maps import ARCADE, HANDHELD, LOBBY, OFFSETS, ROWS
from tests.support.wire_cases import INGESTED_MS

NOW_S = INGESTED_MS // 1_000
GAME: dict[str, Any] = {
    "tenant": "blue",
    "device": {"hw.id": "h1", "os": "PS5"},
    "session": {"number": 7, "foreground": 2_500},
    "type": "session_start",
    "ts": INGESTED_MS - 250,
    "user": {"id": "ann"},
    "game": "chess",
    "geo": {"country": "DE"},
}
PHONE = {"phone": "p1", "sid": 7, "kind": "open", "at": NOW_S}
TABLET = {"maker": "m", "serial no?": "s", "os": "iPadOS", "run": {"id": 7}, "kind": "close", "at": NOW_S}
OFFSET = {"id": "d", "sid": 7, "kind": "open", "at": "2026-11-21T12:00:00.250Z"}


def changed(message: dict[str, Any], *path: str, to: object) -> bytes:
    """A message with another value at a path; `...` leaves the field out."""
    message = deepcopy(message)
    *above, name = path
    holder = message
    for one in above:
        holder = holder[one]
    if to is ...:
        del holder[name]
    else:
        holder[name] = to
    return json.dumps(message).encode()


def game(*path: str, to: object = None, **top: object) -> bytes:
    return changed(GAME | top, *path, to=to) if path else json.dumps(GAME | top).encode()


def raw(message: dict[str, Any], name: str, text: str) -> bytes:
    """A message whose field has this JSON text."""
    return json.dumps(message | {name: "@"}).replace('"@"', text).encode()


HALL: dict[str, Any] = {
    "client": {"id": "c1", "os": "Android"},
    "user": {"id": 5, "session": "8c5e-\u00fc"},
    "name": "joined",
    "time": INGESTED_MS,
}
LONG, END = "x" * 257, {"type": "session_end"}
Case = tuple[bytes | None, object]

ARCADE_CASES: dict[str, Case] = {
    "a start": (game(), {"device_id": "blue:h1", "session_id": 7, "is_start": True, "platform": "console"}),
    "a second kind of start": (game(type="session_resume"), {"is_start": True, "account_id": "ann"}),
    "an end in milliseconds": (game(**END), {"is_start": False, "foreground_s": 2}),
    "foreground under a second": (game("session", "foreground", to=999, **END), {"foreground_s": 0}),
    "foreground on a start": (game(), {"foreground_s": None}),
    "foreground in quotes": (game("session", "foreground", to="5", **END), {"foreground_s": None}),
    "negative foreground": (game("session", "foreground", to=-1, **END), "negative_foreground"),
    "the largest foreground": (
        game("session", "foreground", to=2**63 - 1, **END),
        {"foreground_s": (2**63 - 1) // 1_000},
    ),
    # ids
    "parts with separators": (game("tenant", to="a:b\\c"), {"device_id": "a\\:b\\\\c:h1"}),
    "numbers as parts": (game("tenant", to=-5), {"device_id": "-5:h1"}),
    "minus zero as a part": (raw(GAME, "tenant", "-0"), {"device_id": "0:h1"}),
    "a fraction as a part": (game("tenant", to=5.0), "missing_device_id"),
    "a part over 64 bits": (game("tenant", to=2**63), "missing_device_id"),
    "true as a part": (game("tenant", to=True), "missing_device_id"),
    "no first part": (game("tenant", to=...), "missing_device_id"),
    "no second part": (game("device", "hw.id", to=...), "missing_device_id"),
    "an empty part": (game("tenant", to=""), "missing_device_id"),
    "white space as a part": (game("device", "hw.id", to=" \u2003"), "missing_device_id"),
    "the name without quotes is a path": (game("device", to={"hw": {"id": "h1"}, "os": "PS5"}), "missing_device_id"),
    "an object that is a text": (game("device", to="h1"), "missing_device_id"),
    "an object that is a list": (game("device", to=[{"hw.id": "h1", "os": "PS5"}]), "missing_device_id"),
    "a long part": (game("tenant", to=LONG), "oversized"),
    "a long part and no other": (game("device", "hw.id", to=..., tenant=LONG), "oversized"),
    "parts that are long together": (
        game("tenant", to="x" * 200, device={"hw.id": "y" * 200, "os": "PS5"}),
        "oversized",
    ),
    "parts of 256 together": (game("tenant", to="x" * 253), {"device_id": f"{'x' * 253}:h1"}),
    "no session": (game("session", "number", to=...), "missing_session_id"),
    "a session in quotes": (game("session", "number", to="7"), "missing_session_id"),
    "no session object": (game("session", to=...), "missing_session_id"),
    "a number as account": (game("user", "id", to=5), {"account_id": "5"}),
    "an empty account": (game("user", "id", to=""), {"account_id": None}),
    "a long account": (game("user", "id", to=LONG), "oversized"),
    "an account of the wrong type": (game("user", "id", to=[1]), {"account_id": None}),
    # event time
    "no time": (game("ts", to=...), "missing_event_time"),
    "a time in quotes": (game("ts", to=str(INGESTED_MS)), "missing_event_time"),
    "a time with a fraction": (game("ts", to=INGESTED_MS + 0.5), "missing_event_time"),
    "a time over 64 bits": (game("ts", to=2**63), "missing_event_time"),
    "the latest time": (game("ts", to=2**63 - 1), "event_time_in_future"),
    "the earliest time": (game("ts", to=-(2**63)), "event_time_too_old"),
    "as far ahead as may be": (game("ts", to=INGESTED_MS + 600_000), {"event_ms": INGESTED_MS + 600_000}),
    "a millisecond further ahead": (game("ts", to=INGESTED_MS + 600_001), "event_time_in_future"),
    # kinds
    "another event": (game(type="purchase"), None),
    "another event with nothing right": (b'{"type":"purchase"}', None),
    "another event with a long id": (game("tenant", to=LONG, type="purchase"), None),
    "another event over 64 KiB": (game(type="purchase", pad="x" * 65_536), "oversized"),
    "another event cut short": (game(type="purchase")[:-1], "malformed_json"),
    "no kind": (game("type", to=...), "unknown_event"),
    "a number as kind": (game("type", to=1), "unknown_event"),
    "no kind and no device": (b"{}", "missing_device_id"),
    # platform
    "another platform": (game("device", "os", to="Windows"), {"platform": "pc"}),
    "an unknown platform": (game("device", "os", to="Linux"), "unknown_platform"),
    "an unknown platform on an end": (game("device", "os", to="Linux", **END), "unknown_platform"),
    "a platform in small letters": (game("device", "os", to="ps5"), "unknown_platform"),
    "a number as platform": (game("device", "os", to=5), "unknown_platform"),
    "no platform": (game("device", "os", to=...), "unknown_platform"),
    "no platform and no kind": (game("device", "os", to=..., type=None), "unknown_event"),
    "no platform and in the future": (game("device", "os", to=..., ts=2 * INGESTED_MS), "unknown_platform"),
    # title and kept values
    "a title and kept values": (game(), {"labels": ["chess", "DE", "PS5"]}),
    "the same on an end": (game(**END), {"labels": ["chess", "DE", "PS5"]}),
    "an integer as title": (game(game=-5), {"labels": ["-5", "DE", "PS5"]}),
    "minus zero as title": (raw(GAME, "game", "-0"), {"labels": ["0", "DE", "PS5"]}),
    "true as title": (game(game=True), {"labels": ["true", "DE", "PS5"]}),
    "false as kept value": (game("geo", "country", to=False), {"labels": ["chess", "false", "PS5"]}),
    "an integer over 64 bits as title": (game(game=2**63), {"labels": [None, "DE", "PS5"]}),
    "a fraction as title": (game(game=5.0), {"labels": [None, "DE", "PS5"]}),
    "null as title": (game(game=None), {"labels": [None, "DE", "PS5"]}),
    "an empty title": (game(game=""), {"labels": [None, "DE", "PS5"]}),
    "white space as title": (game(game=" \u2003"), {"labels": [" \u2003", "DE", "PS5"]}),
    "a list as title": (game(game=["chess"]), {"labels": [None, "DE", "PS5"]}),
    "an object as title": (game(game={"name": "chess"}), {"labels": [None, "DE", "PS5"]}),
    "half a character in a title": (game(game="a\ud800"), {"labels": [None, "DE", "PS5"]}),
    "a title of 256": (game(game="\U0001f3ae" * 256), {"labels": ["\U0001f3ae" * 256, "DE", "PS5"]}),
    "a title of 257": (game(game=LONG), {"labels": [None, "DE", "PS5"]}),
    "no object of a kept value": (game("geo", to=...), {"labels": ["chess", None, "PS5"]}),
    # objects
    "null": (None, "malformed_json"),
    "a repeated object": (json.dumps(GAME)[:-1].encode() + b',"tenant":"blue"}', {"device_id": "blue:h1"}),
    "a repeated field in an object": (
        game().replace(b'"number": 7', b'"number": 7, "number": 7'),
        {"session_id": 7},
    ),
    "a repeated unknown field in an object": (
        game().replace(b'"number": 7', b'"number": 7, "x": 1, "x": 2'),
        {"session_id": 7},
    ),
    "a repeated field in an unknown object": (game()[:-1] + b',"x":{"a":1,"a":2}}', {"session_id": 7}),
}
PHONE_CASES: dict[str, Case] = {
    "a phone": (json.dumps(PHONE).encode(), {"device_id": "p1", "platform": "mobile", "account_id": None}),
    "a phone with a colon": (changed(PHONE, "phone", to="p:1"), {"device_id": "p:1"}),
    "a number as phone": (changed(PHONE, "phone", to=9), {"device_id": "9"}),
    "a phone of 257": (changed(PHONE, "phone", to=LONG), "oversized"),
    "a maker beside": (changed(PHONE, "maker", to=LONG), {"device_id": "p1"}),
    "another kind": (changed(PHONE, "kind", to="pause"), "unknown_event"),
    "an activity": (changed(PHONE, "kind", to="ping"), None),
    "an activity with nothing right": (b'{"kind":"ping"}', None),
    "an activity cut short": (b'{"kind":"ping"', "malformed_json"),
    "seconds": (raw(PHONE, "at", f"{NOW_S}"), {"event_ms": NOW_S * 1_000}),
    "seconds with digits": (raw(PHONE, "at", f"{NOW_S}.1239999"), {"event_ms": NOW_S * 1_000 + 123}),
    "seconds with one digit": (raw(PHONE, "at", f"{NOW_S}.5"), {"event_ms": NOW_S * 1_000 + 500}),
    "seconds with zeros": (raw(PHONE, "at", f"{NOW_S}.000"), {"event_ms": NOW_S * 1_000}),
    "seconds with an exponent": (raw(PHONE, "at", "1.7637264e9"), "missing_event_time"),
    "seconds in quotes": (raw(PHONE, "at", f'"{NOW_S}"'), "missing_event_time"),
    "negative seconds": (raw(PHONE, "at", "-1.0019"), "event_time_too_old"),
    "very many seconds": (raw(PHONE, "at", "1" + "0" * 30), "event_time_in_future"),
    "very many seconds ago": (raw(PHONE, "at", "-1" + "0" * 30 + ".5"), "event_time_too_old"),
    "milliseconds taken for seconds": (raw(PHONE, "at", str(INGESTED_MS)), "event_time_in_future"),
}
TABLET_CASES: dict[str, Case] = {
    "a tablet": (json.dumps(TABLET).encode(), {"device_id": "m:s", "session_id": 7, "platform": "tablet"}),
    "a tablet with the field of phones": (changed(TABLET, "maker", to=...), "missing_device_id"),
    "a tablet with the session of phones": (changed(TABLET | {"sid": 7}, "run", to=...), "missing_session_id"),
    "a phone that says it is a tablet": (changed(TABLET, "os", to="iOS"), "unknown_platform"),
}
OFFSET_CASES: dict[str, Case] = {
    **{
        written: (changed(OFFSET, "at", to=f"2026-11-21T{written}"), {"event_ms": INGESTED_MS - 500 + after_ms})
        for written, after_ms in {
            "12:00:00Z": 0, "12:00:00+00:00": 0, "12:00:00+0000": 0, "12:00:00.5+00": 500, "13:30:00.25+0130": 250,
            "13:00:00+01": 0, "11:59:00.001-00:01": 1, "06:00:00-06": 0, "11:15:00-0045": 0,
        }.items()
    },
    **{
        written: (changed(OFFSET, "at", to=f"2026-11-21T{written}"), "missing_event_time")
        for written in ("12:00:00", "12:00:00+0", "12:00:00+000", "12:00:00+24", "12:00:00+0060", "12:00:00+00:0",
                        "12:00:00+00000", "12:00:00 +0000", "12:00:00z", "12:00:00+00Z")
    },
}  # fmt: skip

ROW_CASES: dict[str, Case] = {
    **{
        written: (changed(OFFSET, "at", to=f"2026-11-21{written}"), {"event_ms": INGESTED_MS - 500 + after_ms})
        for written, after_ms in {
            " 12:00:00": 0, " 12:00:00.25": 250, " 12:00:00.250999": 250, "T12:00:00": 0, " 12:00:00Z": 0,
            " 12:00:00 Z": 0, " 13:00:00.001 +01:00": 1, " 13:00:00+0100": 0, " 13:00:00 +01": 0,
            "T06:15:00.5-05:45": 500, " 11:15:00 -0045": 0,
        }.items()
    },
    **{
        written: (changed(OFFSET, "at", to=f"2026-11-21{written}"), "missing_event_time")
        for written in ("", " 12:00", "12:00:00", "  12:00:00", "t12:00:00", " 12:00:00 ", " 12:00:00  +01",
                        " 24:00:00", " 12:00:60", " 12:00:00.", " 12:00:00 UTC", " 12:00:00 +24", " 12:00:00+0060",
                        " 12:00:00 +1", " 12:00:00 +00Z", " 12:00:00\n", " 12:00:00 Z\n")
    },
    "30 February": (changed(OFFSET, "at", to="2026-02-30 12:00:00"), "missing_event_time"),
    "a number as time": (changed(OFFSET, "at", to=INGESTED_MS), "missing_event_time"),
}  # fmt: skip


def hall(session_id: object, **top: object) -> bytes:
    return changed(HALL | top, "user", "session", to=session_id)


HALL_CASES: dict[str, Case] = {
    "a text as session": (hall("8c5e-\u00fc"), {"session_id": "8c5e-\u00fc", "platform": "mobile", "account_id": "5"}),
    "an integer as session": (hall(-7), {"session_id": "-7"}),
    "minus zero as session": (hall(12321).replace(b"12321", b"-0"), {"session_id": "0"}),
    "separators in a session of one part": (hall("a:\\b"), {"session_id": "a:\\b"}),
    "a session of 256": (hall("\U0001f3ae" * 256), {"session_id": "\U0001f3ae" * 256}),
    "a session of 257": (hall(LONG), "oversized"),
    "an empty session": (hall(""), "missing_session_id"),
    "white space as session": (hall(" \u2003"), "missing_session_id"),
    "half a character as session": (hall("\ud800"), "missing_session_id"),
    "a fraction as session": (hall(7.0), "missing_session_id"),
    "a session over 64 bits": (hall(2**63), "missing_session_id"),
    "true as session": (hall(True), "missing_session_id"),
    "no text session": (hall(...), "missing_session_id"),
    "a long session of another event": (hall(LONG, name="chat"), None),
    "a second kind of end": (hall("s", name="kicked"), {"is_start": False, "foreground_s": None}),
}
ROOM_CASES: dict[str, Case] = {
    "a session of two parts": (hall("8c5e", visit=3), {"session_id": "3:8c5e", "platform": "pc"}),
    "separators in a session": (hall("a:\\b", visit=3), {"session_id": "3:a\\:\\\\b"}),
    "no first part of a session": (hall("a"), "missing_session_id"),
    "no second part of a session": (hall("", visit=3), "missing_session_id"),
    "a long part of a session": (hall("a", visit=LONG), "oversized"),
    "a long part and no other": (hall(None, visit=LONG), "oversized"),
    "long parts together": (hall("y" * 200, visit="x" * 200), "oversized"),
}

CASES: dict[tuple[str, str], dict[str, Case]] = {
    (ARCADE, "arcade"): ARCADE_CASES,
    (HANDHELD, "phones"): PHONE_CASES,
    (HANDHELD, "tablets"): TABLET_CASES,
    (OFFSETS, "games"): OFFSET_CASES,
    (ROWS, "rows"): ROW_CASES,
    (LOBBY, "rooms"): ROOM_CASES,
    (LOBBY, "halls"): HALL_CASES,
}
"""By map and stream."""
