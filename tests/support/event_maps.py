"""The maps of the package, and maps of studios that do not exist, each as the text of its file."""

import yaml

from sessionization.event_map.model import EventMap
from tests.support.sources import ROOT

PACKAGE = {file.stem: file.read_text() for file in sorted((ROOT / "lib/sessionization/event_map/maps").glob("*.yml"))}
"""The maps that have a name of their own for `--events`."""

WITH_PINGS = PACKAGE["default"].replace("activity: []", "activity: [Ping]")
"""The map `default`, with events of activity."""

ARCADE = """
version: 1
streams:
  arcade: {platform: {path: device.os, values: {Windows: pc, PS5: console, iOS: mobile}}}
device_id: [tenant, device."hw.id"]
session_id: session.number
event: type
kinds: {start: [session_start, session_resume], end: [session_end]}
other_events: skip
event_time: {path: ts, format: epoch_ms}
account_id: user.id
foreground_s: {path: session.foreground, unit: ms}
title: game
keep: {country: geo.country, os: device.os}
"""
"""One stream for all platforms, nested fields, a composite device id, and other events beside. It has a title
and kept values, one of them of a field that has another meaning too."""

HANDHELD = """
version: 1
streams:
  phones: {platform: mobile, device_id: phone}
  tablets: {platform: {path: os, values: {iPadOS: tablet}}, device_id: [maker, "serial no?"], session_id: run.id}
session_id: sid
event: kind
kinds: {start: [open], end: [close], activity: [ping]}
event_time: {path: at, format: epoch_s}
"""
"""Streams of different ids, events of activity, and none of the optional fields."""

LOBBY = """
version: 1
streams:
  rooms: {platform: pc, session_id: [visit, user.session]}
  halls: {platform: {path: client.os, values: {Android: mobile, SteamOS: handheld}}}
device_id: client.id
session_id: user.session
session_id_type: text
event: name
kinds: {start: [joined], end: [left, kicked]}
other_events: skip
event_time: {path: time, format: epoch_ms}
account_id: user.id
keep: {visit: visit}
"""
"""Session ids of type text, one of them of two parts, and a kept value without a title: that part."""

OFFSETS = """
version: 1
streams: {games: {platform: pc}}
device_id: id
session_id: sid
event: kind
kinds: {start: [open], end: [close]}
event_time: {path: at, format: iso8601_basic_offset}
"""

ROWS = OFFSETS.replace("games:", "rows:").replace("iso8601_basic_offset", "sql_timestamp")
"""Times as SQL writes them."""


def map_of(text: str) -> EventMap:
    return EventMap.model_validate(yaml.load(text, yaml.BaseLoader))
