"""The parts of an event map, each a mapping in its file. docs/your-own-events.md explains each field."""

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Tag,
    model_validator,
)
from pydantic import Discriminator as ChosenBy

from sessionization.event_map.column_names import check_kept_column
from sessionization.event_map.field_path import FieldPath

PAGE = "docs/your-own-events.md"
_STREAM = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,248}")
_URL = re.compile(r"https?://")
_REFERENCE = re.compile(r"env:\S+|secret:[^/]+/.+")
CONSTANT, FROM_A_FIELD = "constant", "from a field"


def check_stream(name: str) -> str:
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


def _as_list(value: object) -> object:
    if not isinstance(value, list | tuple):
        msg = f"{value!r} is no list: write [NAME, NAME]"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
    return value


def as_registry(value: object) -> object:
    """A registry, which needs no more than its URL, or a folder."""
    return {"url": value} if isinstance(value, str) else value


class Part(BaseModel):
    """A mapping in the file. A field that is not known is refused with the names of those that are."""

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, content: object) -> object:
        if not isinstance(content, Mapping):
            msg = f"has no fields: write them below it, as {PAGE} shows"
            raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
        for name in content:
            if name not in cls.model_fields:
                msg = f"{name} is not known: there are {', '.join(cls.model_fields)}"
                raise ValueError(msg)
        return content


IdPaths = Annotated[tuple[FieldPath, ...], BeforeValidator(_as_parts)]
Text = Annotated[str, Field(min_length=1, max_length=256)]
Kind = Annotated[tuple[Text, ...], BeforeValidator(_as_list)]
KeptColumn = Annotated[str, AfterValidator(check_kept_column)]


class PlatformField(Part):
    """The platform of a message, from the text of a field."""

    path: FieldPath
    values: Annotated[dict[Text, Text], Field(min_length=1)]


class Stream(Part):
    """A topic, folder or table of messages."""

    platform: Annotated[
        Annotated[Text, Tag(CONSTANT)] | Annotated[PlatformField, Tag(FROM_A_FIELD)],
        ChosenBy(lambda value: CONSTANT if isinstance(value, str) else FROM_A_FIELD),
    ]
    device_id: IdPaths | None = None
    session_id: IdPaths | None = None
    table: Annotated[str, Field(min_length=1)] | None = None
    """The name of a Delta table, or its folder."""
    ingested_at: FieldPath | None = None
    value: FieldPath | None = None
    """The column of the table that holds messages; without it, a row is one."""


class Kinds(Part):
    """The texts of the field `event`, by what they mean."""

    start: Annotated[Kind, Field(min_length=1)]
    end: Annotated[Kind, Field(min_length=1)]
    activity: Kind = ()

    @model_validator(mode="after")
    def _check_kinds(self) -> Self:
        for one, other in combinations(("start", "end", "activity"), 2):
            if both := sorted({*getattr(self, one)} & {*getattr(self, other)}):
                msg = f"{both[0]} is in {one} and in {other}: leave it in one of them"
                raise ValueError(msg)
        return self


class EventTime(Part):
    """The event time, and how it is written."""

    path: FieldPath
    format: Literal["iso8601", "iso8601_basic_offset", "sql_timestamp", "epoch_ms", "epoch_s"]


class Foreground(Part):
    """The time in the foreground, and its unit."""

    path: FieldPath
    unit: Literal["s", "ms"]


class SchemaRegistry(Part):
    """Where the schemas of Avro messages are: the URL of a registry with its sign-in, or a folder."""

    url: Text
    user: Text | None = None
    password: Text | None = None
    ca_file: Text | None = None

    @property
    def is_folder(self) -> bool:
        return _URL.match(self.url) is None

    @model_validator(mode="after")
    def _check_secrets(self) -> Self:
        msg = None
        if not self.is_folder and "@" in self.url:
            msg = "has a user in its URL: write url, user and password below it"
        elif self.password is not None and _REFERENCE.fullmatch(self.password) is None:
            msg = "password is a secret: write env:NAME, or on Databricks secret:SCOPE/KEY"
        if msg is not None:
            raise ValueError(msg)
        return self
