"""What differs between the event maps of two starts: ids stay, and the rest is printed."""

from collections.abc import Iterator, Mapping
from typing import Any

from sessionization.event_map.model import EventMap


def refuse_other_ids(events: EventMap, former: EventMap) -> None:
    """Raises `ValueError` where a stream of `former` is gone, or has ids of other paths or another type.

    Also where a table was added: Spark goes on with the number of tables that a query began with.
    """
    if events.session_id_type != former.session_id_type:
        msg = f"session_id_type was {former.session_id_type}, and is {events.session_id_type}: ids never change"
        raise ValueError(msg)
    for stream in events.stream_names:
        if stream not in former.streams and events.streams[stream].table is not None:
            msg = f"streams.{stream} is new, and a table: a checkpoint goes on with the tables that it began with"
            raise ValueError(msg)
    for stream in former.stream_names:
        if stream not in events.streams:
            msg = f"streams.{stream} is gone: streams may be added, and none may go"
            raise ValueError(msg)
        for field in ("device_id", "session_id"):
            was, now = (getattr(one.streams[stream], field) or getattr(one, field) for one in (former, events))
            if was != now:
                msg = f"streams.{stream}.{field} was {_written(was)}, and is {_written(now)}: ids never change"
                raise ValueError(msg)


def differences(events: EventMap, former: EventMap) -> list[str]:
    """What differs, a line for each field: `kinds.start is [a], was [b]`."""
    now, was = (dict(_leaves(one.stored())) for one in (events, former))
    names = sorted(name for name in now.keys() | was.keys() if now.get(name) != was.get(name))
    return [f"{name} is {_written(now.get(name))}, was {_written(was.get(name))}" for name in names]


def _leaves(content: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in content.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def _written(value: object) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value or "not given")
