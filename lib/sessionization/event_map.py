"""The event map: what the messages of a studio mean. `--events NAME|FILE` names one, and it is checked once, here.

The parser, the simulator, the checkpoint and the jobs that read the archive take streams and fields from it.
docs/your-own-events.md explains each field.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic import Discriminator as ChosenBy
from pydantic_core import ErrorDetails

from sessionization.errors import ConfigurationError
from sessionization.yaml_file import read_yaml_file

DEFAULT: Final = "default"
_PAGE = "docs/your-own-events.md"
_MAPS, _ENDING = files("sessionization") / "event_maps", ".yml"
_STREAM = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,248}")
_NAME = re.compile(r'"[^"?]+"|[^".\[\]]+')  # Spark's paths have no question mark in quotes
_PATH = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))*")
_NEEDS_QUOTES = re.compile(r"[.\[\]]")
_CONSTANT, _FROM_A_FIELD = "constant", "from a field"
_NOT_IN_A_FILE = {_CONSTANT, _FROM_A_FIELD, "[key]"}
"""What pydantic's location of an error has beyond the place in a file."""

Names = tuple[str, ...]
"""A path, name by name: where a value is in a message."""


def names_of(path: str) -> Names:
    """The names of a path.

    >>> names_of('device."os.name"')
    ('device', 'os.name')
    """
    return tuple(name.strip('"') for name in _NAME.findall(path))


def _check_path(path: str) -> str:
    """Return the path in the one way in which it is compared and stored."""
    if _PATH.fullmatch(path) is None or any(name != name.strip() for name in names_of(path)):
        msg = f"{path!r} is no path: write names joined by dots, a name with a dot in double quotes; it enters no list"
        raise ValueError(msg)
    return ".".join(f'"{name}"' if _NEEDS_QUOTES.search(name) else name for name in names_of(path))


def _check_stream(name: str) -> str:
    if _STREAM.fullmatch(name) is None:
        msg = (
            f"{name!r} cannot be a topic and a folder: write at most 249 of the characters a-z, A-Z, 0-9, '.', '_' and "
            "'-', first a letter or a digit"
        )
        raise ValueError(msg)
    return name


def _as_parts(value: object) -> object:
    """The paths of an id: one, or the parts of a composite id."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and value:
        return value
    msg = f"{value!r} is no path: write one, or a list of paths for an id of several parts"
    raise ValueError(msg)


def _as_one_path(value: object) -> object:
    if isinstance(value, list):
        msg = "of several parts is not supported yet: write one path"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
    return value


def _as_list(value: object) -> object:
    if not isinstance(value, list | tuple):
        msg = f"{value!r} is no list: write [NAME, NAME]"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
    return value


def _refuse_text_ids(value: object) -> object:
    if value == "text":
        msg = "text is not supported yet: leave it out"
        raise ValueError(msg)
    return value


class _Part(BaseModel):
    """A mapping in the file. A field that is not known is refused with the names of those that are."""

    model_config = ConfigDict(frozen=True)
    not_yet: ClassVar[Names] = ()
    """Names that the format has, and this release does not."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, content: object) -> object:
        if not isinstance(content, Mapping):
            msg = f"has no fields: write them below it, as {_PAGE} shows"
            raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
        for name in content:
            if name in cls.not_yet:
                msg = f"{name} is not supported yet: leave it out"
                raise ValueError(msg)
            if name not in cls.model_fields:
                msg = f"{name} is not known: there are {', '.join(cls.model_fields)}"
                raise ValueError(msg)
        return content


FieldPath = Annotated[str, AfterValidator(_check_path)]
DevicePaths = Annotated[tuple[FieldPath, ...], BeforeValidator(_as_parts)]
SessionPath = Annotated[FieldPath, BeforeValidator(_as_one_path)]
Text = Annotated[str, Field(min_length=1, max_length=256)]
Kind = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]


class PlatformField(_Part):
    """The platform of a message, from the text of a field."""

    path: FieldPath
    values: Annotated[dict[Text, Text], Field(min_length=1)]


class Stream(_Part):
    """A topic or folder of messages."""

    not_yet = ("table", "value", "ingested_at")

    platform: Annotated[
        Annotated[Text, Tag(_CONSTANT)] | Annotated[PlatformField, Tag(_FROM_A_FIELD)],
        ChosenBy(lambda value: _CONSTANT if isinstance(value, str) else _FROM_A_FIELD),
    ]
    device_id: DevicePaths | None = None
    session_id: SessionPath | None = None


class Kinds(_Part):
    """The texts of the field `event`, by what they mean."""

    start: Annotated[Kind, Field(min_length=1)]
    end: Annotated[Kind, Field(min_length=1)]
    activity: Kind = ()

    @model_validator(mode="after")
    def _check_kinds(self) -> Self:
        if self.activity:
            msg = "activity is not supported yet: leave it out"
            raise ValueError(msg)
        if both := sorted({*self.start} & {*self.end}):
            msg = f"{both[0]} is in start and in end: leave it in one of them"
            raise ValueError(msg)
        return self


class EventTime(_Part):
    """The event time, and how it is written."""

    path: FieldPath
    format: Literal["iso8601", "iso8601_basic_offset", "epoch_ms", "epoch_s"]


class Foreground(_Part):
    """The time in the foreground, and its unit."""

    path: FieldPath
    unit: Literal["s", "ms"]


class EventMap(_Part):
    """What messages mean: the streams that they come in, and where each message has what the rules need."""

    not_yet = ("title", "keep", "value", "ingested_at")

    version: Literal["1"]
    streams: Annotated[dict[Annotated[str, AfterValidator(_check_stream)], Stream], Field(min_length=1)]
    device_id: DevicePaths | None = None
    session_id: SessionPath | None = None
    session_id_type: Annotated[Literal["integer"], BeforeValidator(_refuse_text_ids)] = "integer"
    event: FieldPath
    kinds: Kinds
    other_events: Literal["quarantine", "skip"] = "quarantine"
    event_time: EventTime
    account_id: FieldPath | None = None
    foreground_s: Foreground | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for name, stream in self.streams.items():
            for field in ("device_id", "session_id"):
                if getattr(stream, field) is None and getattr(self, field) is None:
                    msg = f"streams.{name}.{field} is missing: give it there, or as {field} for all streams"
                    raise ValueError(msg)
        spelled = {name.lower(): name for name in self.top_names}
        if other := [name for name in self.top_names if spelled[name.lower()] != name]:
            msg = f"{other[0]} and {spelled[other[0].lower()]} differ in upper and lower case alone: write one of them"
            raise ValueError(msg)
        return self

    @property
    def stream_names(self) -> Names:
        return tuple(self.streams)

    def device_id_of(self, stream: str) -> tuple[Names, ...]:
        """The paths of a stream's device id: one, or the parts of a composite id."""
        return tuple(map(names_of, self.streams[stream].device_id or self.device_id or ()))

    def session_id_of(self, stream: str) -> Names:
        return names_of(self.streams[stream].session_id or self.session_id or "")

    def paths(self) -> Iterator[Names]:
        """Every path, one that is used twice also twice."""
        for name, stream in self.streams.items():
            yield from (*self.device_id_of(name), self.session_id_of(name))
            if isinstance(stream.platform, PlatformField):
                yield names_of(stream.platform.path)
        optional = (self.account_id, self.foreground_s.path if self.foreground_s else None)
        yield from (names_of(path) for path in (self.event, self.event_time.path, *optional) if path)

    @property
    def top_names(self) -> Names:
        """The fields of a message that hold everything, each once."""
        return tuple(dict.fromkeys(path[0] for path in self.paths()))

    @property
    def skips(self) -> bool:
        """Whether other events are skipped, not quarantined."""
        return self.other_events == "skip"

    @property
    def is_default(self) -> bool:
        """Whether this is the package's `default`, which alone takes no number as a device or an account."""
        return self == package_map(DEFAULT)

    def refuse_other_ids(self, former: "EventMap") -> None:
        """Raises `ValueError` where a stream of `former` is gone, or has other paths of ids."""
        for stream in former.stream_names:
            if stream not in self.streams:
                msg = f"streams.{stream} is gone: streams may be added, and none may go"
                raise ValueError(msg)
            for field in ("device_id", "session_id"):
                was, now = (getattr(one.streams[stream], field) or getattr(one, field) for one in (former, self))
                if was != now:
                    msg = f"streams.{stream}.{field} was {_written(was)}, and is {_written(now)}: ids never change"
                    raise ValueError(msg)

    def differences_from(self, former: "EventMap") -> list[str]:
        """What differs from another map, a line for each field: `kinds.start is [a], was [b]`."""
        now, was = (dict(_leaves(one.model_dump(mode="json", exclude_none=True))) for one in (self, former))
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


@cache
def package_map(name: str) -> EventMap:
    """A map of the package, by its name."""
    return _checked(read_yaml_file(_MAPS / f"{name}{_ENDING}", name, _PAGE), name)


def read_event_map(name_or_file: str) -> EventMap:
    """Read the map of `--events`; raises `ConfigurationError` with one line for a file that has a mistake."""
    names = sorted(file.name.removesuffix(_ENDING) for file in _MAPS.iterdir() if file.name.endswith(_ENDING))
    if name_or_file in names:
        return package_map(name_or_file)
    place = f"--events {name_or_file}"
    if not Path(name_or_file).is_file():
        msg = f"{place} is no file, and no map of this name is known: there are {', '.join(names)}"
        raise ConfigurationError(msg)
    return _checked(read_yaml_file(Path(name_or_file), place, _PAGE), place)


def _checked(content: object, place: str) -> EventMap:
    try:
        return EventMap.model_validate(content)
    except ValidationError as error:
        # A wrong value comes before a missing one.
        first = min(error.errors(), key=lambda details: details["type"] == "missing")
        msg = f"{place}: {_explain(first)}"
        raise ConfigurationError(msg) from None


def _explain(error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    place = ".".join(part for part in error["loc"] if isinstance(part, str) and part not in _NOT_IN_A_FILE)
    text = {
        "literal_error": f"{value!r} is not known: write {error.get('ctx', {}).get('expected')}",
        "missing": f"is missing: write it as {_PAGE} shows",
        "value_error": error["msg"].removeprefix("Value error, "),
    }.get(kind, f"{value!r} does not fit: {error['msg'][:1].lower()}{error['msg'][1:]}")
    return f"{place} {text}".lstrip()
