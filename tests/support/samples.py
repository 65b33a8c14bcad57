"""Samples of 200 messages for the maps of products: examples after the product's documentation, then simulated ones."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.simulate.simulated import play, written
from tests.support.event_maps import PACKAGE, map_of
from tests.support.sources import ROOT
from tests.support.wire_cases import INGESTED_MS

EXAMPLES = ROOT / "tests/fixtures/events"
PRODUCTS = sorted(file.stem for file in EXAMPLES.glob("*.json"))
MESSAGES = 200


def sample_of(product: str, folder: Path) -> Path:
    """Write a product's sample, all of which arrived at `INGESTED_MS`."""
    [stream] = map_of(PACKAGE[product]).stream_names
    dirty = {"rate": 4, "duration": "120s", "session_length": "20s", "dirt": 0.4, "events": product}
    play(folder / "played", now_ms=INGESTED_MS, **dirty)
    lines = [
        *(EXAMPLES / f"{product}.json").read_bytes().splitlines(),
        *(one.line for one in written(folder / "played")),
    ]
    sample = folder / stream / "sample.json"
    sample.parent.mkdir()
    sample.write_bytes(b"".join(line + b"\n" for line in lines[:MESSAGES]))
    os.utime(sample, (INGESTED_MS / 1_000, INGESTED_MS / 1_000))
    return sample


def _event(device: str, session: str, at: str, platform: str, **more: Any) -> dict[str, Any]:
    at_ms = round(datetime.fromisoformat(at).timestamp() * 1_000)
    return {"device_id": device, "session_id": session, "event_ms": at_ms, "platform": platform} | more


_PHONE, _CONSOLE = "f3b0c9d27a514e0e8f1b5a6c7d8e9f01", "a14c7e3f9b6d4a2c8e5f0d1b2c3a4e5f"
_BROWSER = "ABCD1-4321a879b185fcb9c6ca27abc5387e914"
_IPHONE = "AEBE52E7-03EE-455A-B3C4-E57283966239"
_PLAYER = {"account_id": "E3D1A2B4C5F60718"}
_ON_PHONE = "4879bf37-8566-46ce-9f3b-bd18d6ac6101"
_ON_CONSOLE = "5980c048-9677-47df-8a4c-ce29e7bd7202"
_IN_BROWSER = "6a91d159-a788-48e0-9b5d-df3af8ce8303"
_GAME, _OTHER_GAME = "de305d54-75b4-431b-adb2-eb6b9e540101", "de305d54-75b4-431b-adb2-eb6b9e540102"
_MATCH, _OTHER_MATCH = "b7f6a0de-0c51-4f5e-a0f4-2a6f6d0e9a01", "b7f6a0de-0c51-4f5e-a0f4-2a6f6d0e9a02"
START, END = {"is_start": True}, {"is_start": False}
MEANT: dict[str, list[dict[str, Any] | None]] = {
    "unity": [
        None,
        _event(
            _PHONE,
            _ON_PHONE,
            "2026-11-21T11:40:00.121Z",
            "mobile",
            account_id=_PHONE,
            labels=["com.example.rally", "1.4.2"],
            **START,
        ),
        None,
        _event(
            _PHONE, _ON_PHONE, "2026-11-21T11:52:30.007Z", "mobile", foreground_s=None, labels=[None, "1.4.2"], **END
        ),
        _event(_CONSOLE, _ON_CONSOLE, "2026-11-21T11:45:10.500Z", "console", account_id="player-4711", **START),
        None,
        _event(
            "browser-77",
            _IN_BROWSER,
            "2026-11-21T11:50:00.250Z",
            "web",
            account_id=_BROWSER,
            labels=[None, None],
            **START,
        ),
        _event("browser-77", _IN_BROWSER, "2026-11-21T11:59:00Z", "web", **END),
    ],
    "gameanalytics": [
        _event(
            _IPHONE,
            _GAME,
            "2026-11-21T11:40:00Z",
            "mobile",
            account_id=_IPHONE,
            labels=["104233", "DE", "1.4.2"],
            **START,
        ),
        None,
        None,
        _event(_IPHONE, _GAME, "2026-11-21T11:50:00Z", "mobile", foreground_s=600, **END),
        _event("pc-83f1", _OTHER_GAME, "2026-11-21T11:44:59Z", "pc", labels=["104240", "US", None], **START),
        None,
    ],
    "playfab": [
        _event(
            "8C1F5B2A9D3E4701",
            _MATCH,
            "2026-11-21T11:40:01.742Z",
            "mobile",
            labels=["A5F3", "Google Pixel 9"],
            **_PLAYER,
            **START,
        ),
        None,
        None,
        None,
        _event("8C1F5B2A9D3E4701", _MATCH, "2026-11-21T11:55:00Z", "mobile", **_PLAYER, **END),
        _event(
            "rig-12", _OTHER_MATCH, "2026-11-21T11:50:00.900Z", "pc", account_id=None, labels=["A5F3", None], **START
        ),
    ],
}
"""What each example means, line by line; None is a message that is skipped."""
ACTIVITIES = {"unity": [2], "gameanalytics": [1, 2, 5], "playfab": [3]}
"""The lines of the examples that are signs of life."""
