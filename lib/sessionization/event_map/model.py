"""The event map: what the messages of a studio mean. `--events NAME|FILE` names one, and it is checked once, here.

The parser, the simulator, the checkpoint and the jobs that read the archive take streams and fields from it.
docs/your-own-events.md explains each field.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from sessionization.event_map.field_path import FieldPath, Names, names_of
from sessionization.event_map.parts import (
    EventTime,
    Foreground,
    IdPaths,
    KeptColumn,
    Kinds,
    Part,
    PlatformField,
    SchemaRegistry,
    Stream,
    as_registry,
    check_stream,
)

AVRO = "avro"
TITLE, KEEP = "title", "keep."
"""Keys of `EventMap.paths_of`: `title`, and `keep.NAME` for each kept column."""


class EventMap(Part):
    """What messages mean: the streams that they come in, and where each message has what the rules need."""

    version: Literal["1"]
    streams: Annotated[dict[Annotated[str, AfterValidator(check_stream)], Stream], Field(min_length=1)]
    device_id: IdPaths | None = None
    session_id: IdPaths | None = None
    session_id_type: Literal["integer", "text"] = "integer"
    event: FieldPath
    kinds: Kinds
    other_events: Literal["quarantine", "skip"] = "quarantine"
    event_time: EventTime
    account_id: FieldPath | None = None
    foreground_s: Foreground | None = None
    title: FieldPath | None = None
    keep: Annotated[dict[KeptColumn, FieldPath], Field(min_length=1, max_length=8)] | None = None
    ingested_at: FieldPath | None = None
    value: FieldPath | None = None
    schema_registry: Annotated[SchemaRegistry, BeforeValidator(as_registry)] | None = None

    @model_validator(mode="after")
    def _check_registry(self) -> Self:
        if self.stream_without_table() is not None and (self.value == AVRO) != (self.schema_registry is not None):
            msg = "value: avro and schema_registry (a URL, or a folder of schemas) belong together: write both"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _check_tables(self) -> Self:
        tables = [stream.table for stream in self.streams.values() if stream.table is not None]
        if twice := sorted({table for table in tables if tables.count(table) > 1}):
            msg = f"streams: {twice[0]} is the table of two of them: a table is one stream"
            raise ValueError(msg)
        for name, stream in self.streams.items():
            if stream.table is not None and self.ingested_at_of(name) is None:
                msg = f"streams.{name}.ingested_at is missing: name the column that says when a row was ingested"
                raise ValueError(msg)
            if stream.table is None and (stream.ingested_at or stream.value):
                msg = f"streams.{name} has a column of a table, and no table: name it, or leave the column out"
                raise ValueError(msg)
        if self.ingested_at and not tables:
            msg = "ingested_at is a column of tables, and no stream has a table: name it, or leave the column out"
            raise ValueError(msg)
        if self.value and not self.is_avro and not tables:
            msg = f"value {self.value!r} is not known: write 'avro'; or it is a column, and no stream has a table"
            raise ValueError(msg)
        if self.is_avro and tables:
            msg = "schema_registry is for messages in topics, and a stream has a table: leave one of them out"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        for name, stream in self.streams.items():
            for field in ("device_id", "session_id"):
                if getattr(stream, field) is None and getattr(self, field) is None:
                    msg = f"streams.{name}.{field} is missing: give it there, or as {field} for all streams"
                    raise ValueError(msg)
            if len(self.session_id_of(name)) > 1 and not self.has_text_ids:
                msg = f"session_id of several parts, as in the stream {name}, needs session_id_type: text: add it"
                raise ValueError(msg)
        paths = {path: ".".join(path) for path in self.paths()}
        if inner := [path for path in paths if any(path[:length] in paths for length in range(1, len(path)))]:
            outer = next(path for path in paths if path != inner[0] and path == inner[0][: len(path)])
            msg = f"{paths[inner[0]]} is below {paths[outer]}, which has a value itself: correct one of the paths"
            raise ValueError(msg)
        places = {".".join(path[:length]) for path in paths for length in range(1, len(path) + 1)}
        spelled = {place.lower(): place for place in sorted(places)}
        if other := [place for place in sorted(places) if spelled[place.lower()] != place]:
            msg = f"{other[0]} and {spelled[other[0].lower()]} differ in upper and lower case alone: write one of them"
            raise ValueError(msg)
        return self

    @property
    def stream_names(self) -> Names:
        return tuple(self.streams)

    @property
    def is_avro(self) -> bool:
        """Whether messages may be Avro, in the frame of a schema registry."""
        return self.schema_registry is not None

    @property
    def has_text_ids(self) -> bool:
        """Whether session ids are text, not integers."""
        return self.session_id_type == "text"

    def device_id_of(self, stream: str) -> tuple[Names, ...]:
        """The paths of a stream's device id: one, or the parts of a composite id."""
        return tuple(map(names_of, self.streams[stream].device_id or self.device_id or ()))

    def session_id_of(self, stream: str) -> tuple[Names, ...]:
        """The paths of a stream's session id, likewise."""
        return tuple(map(names_of, self.streams[stream].session_id or self.session_id or ()))

    def stream_without_table(self) -> str | None:
        """A stream that names no table, if there is one."""
        return next((name for name, stream in self.streams.items() if stream.table is None), None)

    def ingested_at_of(self, stream: str) -> Names | None:
        """The column of a stream's table that has the ingest time."""
        path = self.streams[stream].ingested_at or self.ingested_at
        return None if path is None else names_of(path)

    def value_of(self, stream: str) -> Names | None:
        """The column of a stream's table that holds the messages; None where a row is one."""
        path = self.streams[stream].value or self.value
        return None if path is None else names_of(path)

    def paths(self, *streams: str) -> Iterator[Names]:
        """Every path of these streams, by default of all; one that is used twice also twice."""
        for stream in streams or self.streams:
            for paths in self.paths_of(stream).values():
                yield from paths

    def paths_of(self, stream: str) -> dict[str, tuple[Names, ...]]:
        """The paths of a stream's messages by their place in the map, without those that it leaves out."""
        platform = self.streams[stream].platform
        found = {
            "device_id": self.device_id_of(stream),
            "session_id": self.session_id_of(stream),
            "event": (names_of(self.event),),
            "event_time": (names_of(self.event_time.path),),
        }
        if isinstance(platform, PlatformField):
            found["platform"] = (names_of(platform.path),)
        if self.account_id is not None:
            found["account_id"] = (names_of(self.account_id),)
        if self.foreground_s is not None:
            found["foreground_s"] = (names_of(self.foreground_s.path),)
        labels = self.label_paths().items()
        return found | {name if name == TITLE else f"{KEEP}{name}": (path,) for name, path in labels}

    def label_paths(self) -> dict[str, Names]:
        """The paths of `title` and of the kept values, by their columns in the order in which the map has them."""
        paths = {} if self.title is None else {TITLE: self.title}
        return {name: names_of(path) for name, path in (paths | (self.keep or {})).items()}

    def label_columns(self, known: Iterable[str] = ()) -> Names:
        """The columns of `title` and of the kept values: the `known` ones, which never go, then those of this map."""
        return tuple(dict.fromkeys((*known, *self.label_paths())))

    def used_kinds(self, *, has_activity: bool) -> tuple[str, ...]:
        """The kinds of events that the job uses; Activities only with an inactivity timeout."""
        return (*self.kinds.start, *self.kinds.end, *(self.kinds.activity if has_activity else ()))

    def may_skip(self, *, has_activity: bool) -> bool:
        """Whether the job may skip messages: of other kinds under `other_events: skip`, and unused Activities."""
        return self.other_events == "skip" or (bool(self.kinds.activity) and not has_activity)

    def stored(self) -> dict[str, Any]:
        """The content as a checkpoint stores it."""
        return self.model_dump(mode="json", exclude_none=True)
