"""Archived messages -> events: what is written plainly by whole columns of text, all else by the stream's parser.

The parser reads any JSON there is, at a dozen microseconds a message. Nearly all messages are one flat object of ASCII
text without escapes and of whole numbers, which regular expressions read for a third of that. They take what surely is
an event; whatever they pass over, broken messages too, the parser reads, so that both ways say the same.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from sessionization.spark.parse import (
    END_EVENT,
    EVENT_COLUMNS,
    MAX_ID_CODE_POINTS,
    MAX_VALUE_BYTES,
    PC_STREAM,
    START_EVENT,
    EventTimeLimits,
    parse,
)

_PLAIN = pa.struct(
    [
        ("device_id", pa.string()),
        ("session_id", pa.int64()),
        ("is_start", pa.bool_()),
        ("event_ms", pa.int64()),
        ("foreground_s", pa.int64()),
        ("account_id", pa.string()),
    ]
)
_SAID = tuple(field.name for field in _PLAIN)
_READ = f"stream string, ingested_at timestamp, value binary, plain {from_arrow_type(_PLAIN).simpleString()}"

_CHARACTER = r"[ !#-\[\]-~]"
_NUMBER = "(?:0|-?[1-9][0-9]{0,17})"
_TEXT = f'"{_CHARACTER}*"'
_MEMBER = f'"[A-Za-z0-9_]+" ?: ?(?:{_TEXT}|{_NUMBER}|true|false|null)'
_FLAT = rf"\A\{{{_MEMBER}(?:, ?{_MEMBER})*\}}\z"
# The 29th of February is left to the parser.
_DATE = (
    "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_INSTANT = rf"{_DATE}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{3}})?Z"


def events_of(messages: DataFrame, limits: EventTimeLimits) -> DataFrame:
    """What `valid_events(parse(messages, limits))` gives, for less.

    Args:
        messages: at least `stream` string, `ingested_at` timestamp, `value` binary.
        limits: the bounds on event time.

    Returns:
        The messages that are events, with the columns `EVENT_COLUMNS`.
    """
    reader = PlainReader(limits)
    read = messages.select("stream", "ingested_at", "value").mapInArrow(
        lambda batches: reader(batches),  # noqa: PLW0108 - Spark takes functions only
        _READ,
    )
    events = parse(read, limits).where("plain IS NOT NULL OR reason IS NULL")
    return events.select(
        *(F.coalesce(f"plain.{name}", name).alias(name) if name in _SAID else name for name in EVENT_COLUMNS)
    )


@dataclass(frozen=True)
class PlainReader:
    """Reads what is written plainly, and is an event within these limits."""

    limits: EventTimeLimits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: the same messages in another order, with `plain`, which says what is in them, or null.

        Where it is not null, `value` is: for nothing the parser takes no time.
        """
        for batch in batches:
            is_pc = _surely(pc.equal(batch["stream"], PC_STREAM))
            for of_stream, field in ((is_pc, "hostPcId"), (pc.invert(is_pc), "openPsid")):
                yield from self._read(batch.filter(of_stream), field)

    def _read(self, batch: pa.RecordBatch, device_field: str) -> Iterator[pa.RecordBatch]:
        value = batch["value"]
        is_flat = pc.and_(
            pc.less_equal(pc.binary_length(value), MAX_VALUE_BYTES), pc.match_substring_regex(value, _FLAT)
        )
        yield _told(batch.filter(pc.invert(_surely(is_flat))))
        flat = batch.filter(is_flat)
        said, is_event = self._events(flat["value"].cast(pa.string()), _ms(flat["ingested_at"]), device_field)
        yield _told(flat.filter(pc.invert(is_event)))
        yield _told(flat.filter(is_event), said.filter(is_event))

    def _events(
        self, text: pa.Array, ingested_ms: pa.Array, device_field: str
    ) -> tuple[pa.StructArray, pa.BooleanArray]:
        """What flat objects say, and which of them surely are events; what the others say means nothing."""
        fields = {
            device_field: f'"({_CHARACTER}*)"',
            "appSessionId": f"({_NUMBER})",
            "eventId": f'"({START_EVENT}|{END_EVENT})"',
            "timestamp": f'"({_INSTANT})"',
            "psnAccountId": f'"({_CHARACTER}+)"',
            "totalFgTime": "(0|[1-9][0-9]{0,17})",
        }
        read = [_read(text, field, form) for field, form in fields.items()]
        device_id, session_id, event_id, instant, account_id, foreground_s = read
        event_ms = instant.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        ahead_ms = pc.subtract(event_ms, ingested_ms)
        is_start = pc.equal(event_id, START_EVENT)
        # Each mention of a field is the one that was read: none is there twice, or of another form.
        mentioned = pc.count_substring_regex(text, f'"(?:{"|".join(fields)})"')
        is_event = pc.equal(mentioned, reduce(pc.add, (value.is_valid().cast(pa.int32()) for value in read)))
        for mark in (
            session_id.is_valid(),
            event_id.is_valid(),
            pc.not_equal(pc.ascii_ltrim(device_id, " "), ""),
            pc.less_equal(pc.binary_length(device_id), MAX_ID_CODE_POINTS),
            pc.less_equal(pc.fill_null(pc.binary_length(account_id), 0), MAX_ID_CODE_POINTS),
            pc.less_equal(ahead_ms, self.limits.max_clock_skew_ms),
            pc.greater_equal(ahead_ms, -self.limits.max_event_age_ms),
        ):
            is_event = pc.and_(is_event, _surely(mark))
        said = (
            device_id,
            session_id.cast(pa.int64()),
            is_start,
            event_ms,
            pc.if_else(is_start, pa.scalar(None, pa.int64()), foreground_s.cast(pa.int64())),
            account_id,
        )
        return pa.StructArray.from_arrays(said, list(_SAID)), is_event


def _read(text: pa.Array, field: str, form: str) -> pa.Array:
    """A field's value, without quotes, in each flat object; null where it has none of that form."""
    read = pc.extract_regex(text, f'"{field}" ?: ?{form.replace("(", "(?P<read>", 1)}')
    return pc.struct_field(read, "read")


def _surely(marks: pa.Array) -> pa.Array:
    return pc.fill_null(marks, False)


def _ms(instants: pa.Array) -> pa.Array:
    """As Spark's `unix_millis`: milliseconds, rounded down."""
    return pc.floor_temporal(instants, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())


def _told(batch: pa.RecordBatch, said: pa.StructArray | None = None) -> pa.RecordBatch:
    """The messages with what they say in place of their text, or with their text."""
    value = batch["value"] if said is None else pa.nulls(len(batch), pa.binary())
    plain = pa.nulls(len(batch), _PLAIN) if said is None else said
    return pa.RecordBatch.from_arrays(
        [batch["stream"], batch["ingested_at"], value, plain], names=["stream", "ingested_at", "value", "plain"]
    )
