"""Parse messages into valid events, or give a quarantine reason. Native columns only, no Python per row."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sessionization.event_map.field_path import Names, names_of, tree_of
from sessionization.event_map.model import EventMap
from sessionization.event_map.parts import PlatformField, Stream
from sessionization.event_map.reading import DEFAULT, is_default, package_map
from sessionization.message_limits import MAX_ID_CODE_POINTS, MAX_VALUE_BYTES, SKIPPED, EventTimeLimits
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.input.avro_messages import message_text
from sessionization.spark.input.event_time import epoch_ms, with_offset, written_time
from sessionization.spark.input.variant_values import bigint_or_null, label_or_null, string_or_null, text_or_null
from sessionization.sql_text import quoted_name, quoted_path

EVENT_COLUMNS = {
    "device_id": "string",
    "session_id": "bigint",
    "is_start": "boolean",
    "event_ms": "bigint",
    "foreground_s": "bigint",
    "account_id": "string",
    "platform": "string",
    "ingested_ms": "bigint",
}
"""The columns of a valid event, in this order, with their types in Spark; session ids may be text (`event_types`).

`is_start` is null on an Activity.
"""
LABELS = "labels"
"""The column of an event after these where the job has label columns: their values, an array of strings."""

_STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_DEVICE_PART, _SESSION_PART = "_device_part_", "_session_part_"
_SESSION, _FOREGROUND, _LABEL = "_session", "_foreground", "_label_"
_IS_SKIPPED, _IS_ACTIVITY = "_is_skipped", "_is_activity"
_BLANK = r"(?U)^\s*\z"


def parse(
    messages: DataFrame,
    limits: EventTimeLimits,
    events: EventMap | None = None,
    labels: Sequence[str] = (),
    *,
    has_activity: bool = False,
) -> DataFrame:
    """Add the parsed columns to every message, and `reason`: why it is quarantined, or null for a valid event.

    Args:
        messages: one row per message, with at least `stream` string, `ingested_at` timestamp, `value` binary.
        limits: the bounds on event time.
        events: what the messages mean; by default `default`.
        labels: the label columns; one that the map does not have is null.
        has_activity: whether kinds of activity are events; otherwise they are skipped.

    Returns:
        The rows and columns of `messages`, with `EVENT_COLUMNS`, `LABELS` where there are label columns, and `reason`
        string: the first one of docs/tables.md that applies, or `SKIPPED`.
    """
    events = events or package_map(DEFAULT)
    # An expression that is used more than once becomes a column, because Spark would compute it again at each use.
    input_columns = messages.columns
    text = message_text(messages.sparkSession, events)
    decoded = messages.select(*input_columns, text.alias("_text")).select(
        *input_columns,
        "_text",
        # The reader stops after the first JSON value. Inside an array other characters may follow that value than
        # inside an object. So a text that is well-formed in both places holds one value and nothing else.
        F.from_json(F.concat(F.lit("["), "_text", F.lit("]")), _wire_schema(events), _STRICT_JSON).alias("_array"),
        F.from_json(F.concat(F.lit('{"value":'), "_text", F.lit("}")), "map<string, string>", _STRICT_JSON)
        .isNotNull()
        .alias("_is_one_value"),
    )
    is_object = (
        F.is_valid_utf8("_text") & (F.size("_array") == 1) & F.col("_is_one_value") & F.col("_text").rlike(r"^\s*\{")
    )
    wire = decoded.select(*input_columns, F.when(is_object, F.col("_array")[0]).alias("_wire"))
    texts = _texts(wire, events, labels, input_columns)
    typed = _typed(texts, events, labels, input_columns, has_activity=has_activity)
    return _with_reason(typed, events, limits, has_activity=has_activity)


def event_types(layout: StateLayout) -> dict[str, str]:
    """`EVENT_COLUMNS` with session ids of the layout's type, and `LABELS` where it has label columns."""
    labels = {LABELS: "array<string>"} if layout.labels else {}
    return EVENT_COLUMNS | {"session_id": layout.session_id_type} | labels


def valid_events(parsed: DataFrame) -> DataFrame:
    """Select the valid events from the rows of `parse`, with the event's columns only."""
    labels = [LABELS] if LABELS in parsed.columns else []
    return parsed.where("reason IS NULL").select(*EVENT_COLUMNS, *labels)


def _wire_schema(events: EventMap) -> str:
    # Unknown fields are skipped, on every level. A variant of a whole object would be refused for what is in them.
    return f"array<{_struct(tree_of(events.paths()))}>"


def _struct(tree: Mapping[str, Any]) -> str:
    types = ((name, _struct(below) if below else "variant") for name, below in tree.items())
    return f"struct<{', '.join(f'{quoted_name(name)}: {type_}' for name, type_ in types)}>"


def _texts(wire: DataFrame, events: EventMap, labels: Sequence[str], kept: list[str]) -> DataFrame:
    """From rows with `_wire`, the fields of messages, to rows with the values that are texts in columns of their own.

    `_device_part_0` and so on are the parts of the device id, one in most maps; likewise of a session id of type text.
    `_label_0` and so on are the values of the label columns.
    `_session` and `_foreground` are there where their values are no fields of `_wire` in all streams.
    """
    streams, found = events.stream_names, dict[str, Column]()

    def value(name: str, paths: Sequence[Names | None]) -> Column:
        """The value of a field at its path in each stream; what takes work is found in a step of its own."""
        columns = [F.lit(None).cast("variant") if path is None else _value_at(path) for path in paths]
        is_one = len(set(paths)) == 1
        if is_one and paths[0] is not None:
            return columns[0]
        found[name] = columns[0] if is_one else _by_stream(streams, columns)
        return F.col(name)

    def everywhere(name: str, path: str | None) -> Column:
        return value(name, [None if path is None else names_of(path)])

    as_id = string_or_null if is_default(events) else text_or_null

    def parts(prefix: str, ids: Sequence[tuple[Names, ...]]) -> Iterator[Column]:
        for at in range(max(map(len, ids))):
            part = value(f"_value{prefix}{at}", [paths[at] if at < len(paths) else None for paths in ids])
            yield as_id(part).alias(f"{prefix}{at}")

    session_ids = [events.session_id_of(stream) for stream in streams]
    texts = list(parts(_DEVICE_PART, [events.device_id_of(stream) for stream in streams]))
    if events.has_text_ids:
        texts += parts(_SESSION_PART, session_ids)
    else:
        value(_SESSION, [paths[0] for paths in session_ids])
    if any(platform_paths := [_platform_path(stream) for stream in events.streams.values()]):
        texts.append(string_or_null(value("_platform", platform_paths)).alias("_platform_text"))
    time = everywhere("_time", events.event_time.path)
    texts += [
        string_or_null(everywhere("_event", events.event)).alias("_event_id"),
        written_time(time, events.event_time.format).alias("_event_time"),
        as_id(everywhere("_account", events.account_id)).alias("_account_id"),
    ]
    everywhere(_FOREGROUND, _foreground_path(events))
    label_paths = events.label_paths()
    for at, label in enumerate(labels):
        path = label_paths.get(label)
        text = F.lit(None).cast("string") if path is None else label_or_null(_value_at(path))
        texts.append(text.alias(f"{_LABEL}{at}"))
    numbers = [name for name in (_SESSION, _FOREGROUND) if name in found]
    first = wire.select(*kept, "_wire", *(column.alias(name) for name, column in found.items()))
    return with_offset(first.select(*kept, "_wire", *texts, *numbers), events.event_time.format)


def _typed(
    texts: DataFrame, events: EventMap, labels: Sequence[str], kept: list[str], *, has_activity: bool
) -> DataFrame:
    """From rows of `_texts` to `EVENT_COLUMNS`, and what the reasons need beside these."""
    kind, kinds = F.col("_event_id"), events.kinds
    foreground = _foreground_path(events)

    def number(name: str, path: Names) -> Column:
        return bigint_or_null(F.col(name) if name in texts.columns else _value_at(path))

    if events.has_text_ids:
        session_id = _joined(_SESSION_PART, events.stream_names, events.session_id_of)
    else:
        session_id = number(_SESSION, events.session_id_of(events.stream_names[0])[0])
    is_end = kind.isin(*kinds.end)
    is_activity = kind.isin(*kinds.activity)
    is_skipped = is_activity
    if events.other_events == "skip":
        is_skipped = kind.isNotNull() & ~kind.isin(*events.used_kinds(has_activity=has_activity))
    typed = texts.select(
        *kept,
        F.col("_wire").isNotNull().alias("_is_object"),
        *([is_skipped.alias(_IS_SKIPPED)] if events.may_skip(has_activity=has_activity) else []),
        *([is_activity.alias(_IS_ACTIVITY)] if has_activity else []),
        *_parts_of(texts),
        _joined(_DEVICE_PART, events.stream_names, events.device_id_of).alias("device_id"),
        session_id.alias("session_id"),
        F.when(kind.isin(*kinds.start), True).when(is_end, False).alias("is_start"),
        epoch_ms(events.event_time.format).alias("event_ms"),
        F.when(is_end, number(_FOREGROUND, () if foreground is None else names_of(foreground))).alias("foreground_s"),
        F.when(F.col("_account_id") != "", F.col("_account_id")).alias("account_id"),
        _platform(events).alias("platform"),
        F.unix_millis("ingested_at").alias("ingested_ms"),
        *([F.array(*(_label(f"{_LABEL}{at}") for at in range(len(labels)))).alias(LABELS)] if labels else []),
    )
    if events.foreground_s is not None and events.foreground_s.unit == "ms":
        # A negative one is judged as it is: -1 ms must not become 0 s.
        seconds = F.when(F.col("foreground_s") < 0, F.col("foreground_s")).otherwise(F.expr("foreground_s div 1000"))
        typed = typed.withColumn("foreground_s", seconds)
    return typed


def _with_reason(typed: DataFrame, events: EventMap, limits: EventTimeLimits, *, has_activity: bool) -> DataFrame:
    beside = ("_is_object", _IS_SKIPPED, _IS_ACTIVITY, *_parts_of(typed))
    reason = _quarantine_reason(events, limits, _parts_of(typed), has_activity=has_activity)
    return typed.withColumn("reason", reason).drop(*beside)


def _quarantine_reason(
    events: EventMap, limits: EventTimeLimits, parts: Sequence[str], *, has_activity: bool
) -> Column:
    is_too_large = F.octet_length("value") > MAX_VALUE_BYTES
    ids = ["device_id", "account_id", *(["session_id"] if events.has_text_ids else [])]
    single_ids = 2 if events.has_text_ids else 1
    if len(parts) > single_ids:  # some id is composite: its parts have the same bound
        ids += parts
    too_long = reduce(Column.__or__, (F.length(name) > MAX_ID_CODE_POINTS for name in ids))
    has_no_session = F.col("session_id").isNull()
    if events.has_text_ids:
        has_no_session |= F.col("session_id").rlike(_BLANK)
    if events.may_skip(has_activity=has_activity):
        no_object = F.when(is_too_large, "oversized").when(~F.col("_is_object"), "malformed_json")
        reason = no_object.when(F.col(_IS_SKIPPED), SKIPPED).when(too_long, "oversized")
    else:
        reason = F.when(is_too_large | too_long, "oversized").when(~F.col("_is_object"), "malformed_json")
    is_unknown = F.col("is_start").isNull()
    if has_activity:
        is_unknown &= ~F.coalesce(_IS_ACTIVITY, F.lit(False))
    ahead_ms = F.col("event_ms") - F.col("ingested_ms")
    reason = (
        reason.when(F.col("device_id").isNull() | F.col("device_id").rlike(_BLANK), "missing_device_id")
        .when(has_no_session, "missing_session_id")
        .when(F.col("event_ms").isNull(), "missing_event_time")
        .when(is_unknown, "unknown_event")
    )
    if any(isinstance(stream.platform, PlatformField) for stream in events.streams.values()):
        reason = reason.when(F.col("platform").isNull(), "unknown_platform")
    return (
        reason.when(ahead_ms > limits.max_clock_skew_ms, "event_time_in_future")
        .when(ahead_ms < -limits.max_event_age_ms, "event_time_too_old")
        .when(F.col("foreground_s") < 0, "negative_foreground")
    )


def _joined(prefix: str, streams: Names, paths_of: Callable[[str], tuple[Names, ...]]) -> Column:
    """The part of an id of one, or the parts of a composite one, joined; null where one is missing."""
    counts = [len(paths_of(stream)) for stream in streams]
    columns = []
    for count in counts:
        first, *others = (_escaped(f"{prefix}{at}") for at in range(count))
        joined = (part for other in others for part in (F.lit(":"), other))
        columns.append(F.concat(first, *joined) if others else F.col(f"{prefix}0"))
    return columns[0] if len(set(counts)) == 1 else _by_stream(streams, columns)


def _escaped(name: str) -> Column:
    """A part of a composite id; null where it is only white space."""
    part = F.col(name)
    escaped = F.replace(F.replace(part, F.lit("\\"), F.lit("\\\\")), F.lit(":"), F.lit("\\:"))
    return F.when(~part.rlike(_BLANK), escaped)


def _label(name: str) -> Column:
    return F.when(F.length(name).between(1, MAX_ID_CODE_POINTS), F.col(name))


def _platform(events: EventMap) -> Column:
    def platform(stream: Stream) -> Column:
        if isinstance(stream.platform, str):
            return F.lit(stream.platform)
        chosen = [(F.col("_platform_text") == text, name) for text, name in stream.platform.values.items()]
        return reduce(lambda when, one: when.when(*one), chosen[1:], F.when(*chosen[0]))

    return _by_stream(events.stream_names, [platform(stream) for stream in events.streams.values()])


def _foreground_path(events: EventMap) -> str | None:
    return None if events.foreground_s is None else events.foreground_s.path


def _platform_path(stream: Stream) -> Names | None:
    return names_of(stream.platform.path) if isinstance(stream.platform, PlatformField) else None


def _parts_of(rows: DataFrame) -> list[str]:
    return [name for name in rows.columns if name.startswith((_DEVICE_PART, _SESSION_PART))]


def _value_at(path: Names) -> Column:
    return F.col(quoted_path(("_wire", *path)))


def _by_stream(streams: Names, columns: Sequence[Column]) -> Column:
    """The column of a message's stream."""
    *others, last = zip(streams, columns, strict=True)
    if not others:
        return last[1]
    chosen = [(F.col("stream") == stream, column) for stream, column in others]
    return reduce(lambda when, one: when.when(*one), chosen[1:], F.when(*chosen[0])).otherwise(last[1])
