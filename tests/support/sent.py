"""Messages as a device sends them, and their delivery as a collector should do it."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path


def message(
    session_id: int, event: str, device_id: str, at: datetime | None = None, id_field: str = "hostPcId", **more: object
) -> bytes:
    """A `Start` or an `EndBi`, by default of now; `more` are further fields."""
    at = at or datetime.now(UTC)
    fields = {"appSessionId": session_id, "eventId": f"ApplicationSession{event}", id_field: device_id}
    return json.dumps(fields | {"timestamp": at.isoformat(timespec="milliseconds")} | more).encode()


def deliver(folder: Path, name: str, messages: Iterable[bytes]) -> None:
    """Write a file into the folder of a stream under a hidden name, and rename it: it appears as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}.tmp"
    hidden.write_bytes(b"".join(message + b"\n" for message in messages))
    hidden.rename(folder / f"{name}.json")
