"""Read archived messages into events: plain messages by columns of text, all others with the stream's parser.

The parser reads any JSON, in about 12 microseconds per message. Nearly all messages are plain: one flat object of ASCII
text without escapes and of whole numbers, with its fields in a common order. A regular expression reads these in a
tenth of the time. It accepts only messages that are certainly events. The parser reads all others, also malformed ones,
so both ways give the same events.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from sessionization.spark.input.parse import (
    END_EVENT,
    EVENT_COLUMNS,
    MAX_ID_CODE_POINTS,
    MAX_VALUE_BYTES,
    START_EVENT,
    EventTimeLimits,
    parse,
)
from sessionization.streams import PC_STREAM

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
_PLAIN_FIELDS = tuple(field.name for field in _PLAIN)
_READER_SCHEMA = f"stream string, ingested_at timestamp, value binary, plain {from_arrow_type(_PLAIN).simpleString()}"

_CHARACTER = r"[ !#-\[\]-~]"
_NUMBER = "(?:0|-?[1-9][0-9]{0,17})"
_ANY_VALUE = f'(?:"{_CHARACTER}*"|{_NUMBER}|true|false|null)'
_MEMBER = f'"[A-Za-z0-9_]+" ?: ?{_ANY_VALUE}'
_FLAT = re.compile(rf"\{{{_MEMBER}(?:, ?{_MEMBER})*\}}".encode())
_NAME = re.compile(b'"([A-Za-z0-9_]+)" ?:')
# The parser reads the 29th of February.
_DATE = (
    "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_INSTANT = rf"{_DATE}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{3}})?Z"
_REQUIRED_MEMBERS = {
    "appSessionId": f"(?P<appSessionId>{_NUMBER})",
    "eventId": f'"(?P<eventId>{START_EVENT}|{END_EVENT})"',
    "timestamp": f'"(?P<timestamp>{_INSTANT})"',
}
_OPTIONAL_MEMBERS = {
    "psnAccountId": f'(?:null|"(?P<psnAccountId>{_CHARACTER}*)")',
    "totalFgTime": "(?:null|(?P<totalFgTime>0|[1-9][0-9]{0,17}))",
}
_MOST_FIELDS = 32
"""Bound on the fields of a form (an order of fields): the regular expression engine refuses long expressions."""
_MOST_FORMS = 16
"""How many forms are tried in a batch, which has about ten thousand messages and a few malformed ones."""


def read_events(messages: DataFrame, limits: EventTimeLimits) -> DataFrame:
    """Give the same events as `valid_events(parse(messages, limits))`, at a lower cost.

    Args:
        messages: at least `stream` string, `ingested_at` timestamp, `value` binary.
        limits: the bounds on event time.

    Returns:
        The messages that are events, with the columns `EVENT_COLUMNS`.
    """
    reader = PlainReader(limits)
    read = messages.select("stream", "ingested_at", "value").mapInArrow(
        lambda batches: reader(batches),  # noqa: PLW0108 - Spark takes functions only
        _READER_SCHEMA,
    )
    events = parse(read, limits).where("plain IS NOT NULL OR reason IS NULL")
    return events.select(
        *(F.coalesce(f"plain.{name}", name).alias(name) if name in _PLAIN_FIELDS else name for name in EVENT_COLUMNS)
    )


@dataclass(frozen=True)
class PlainReader:
    """Reads the plain messages that are events within the limits."""

    limits: EventTimeLimits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """For `mapInArrow`: gives the same messages in another order, with their fields in `plain`, or null there.

        Where `plain` is not null, `value` is null, because the parser takes no time for null.
        """
        for batch in batches:
            is_pc = _is_true(pc.equal(batch["stream"], PC_STREAM))
            for mask, field in ((is_pc, "hostPcId"), (pc.invert(is_pc), "openPsid")):
                yield from self._read(batch.filter(mask), field)

    def _read(self, remaining: pa.RecordBatch, device_field: str) -> Iterator[pa.RecordBatch]:
        """Repeatedly read all messages that have the form of the first remaining one."""
        for _ in range(_MOST_FORMS):
            if not remaining.num_rows:
                return
            form = _form_pattern(remaining["value"][0].as_py(), device_field)
            read = pa.nulls(len(remaining)) if form is None else pc.extract_regex(remaining["value"], form)
            if read[0].is_valid:
                yield from self._classified(remaining.filter(read.is_valid()), read.drop_null(), device_field)
                remaining = remaining.filter(read.is_null())
            else:
                yield _output_batch(remaining.slice(0, 1))
                remaining = remaining.slice(1)
        yield _output_batch(remaining)

    def _classified(self, batch: pa.RecordBatch, read: pa.StructArray, device_field: str) -> Iterator[pa.RecordBatch]:
        """The messages with the fields that were read; without them where the message is not certainly an event."""

        def texts(field: str) -> pa.Array:
            if read.type.get_field_index(field) < 0:
                return pa.nulls(len(read), pa.string())
            found = pc.struct_field(read, field).cast(pa.string())
            return pc.if_else(pc.equal(found, ""), None, found)

        device_id, account_id = texts(device_field), texts("psnAccountId")
        is_start = pc.equal(texts("eventId"), START_EVENT)
        event_ms = texts("timestamp").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        ahead_ms = pc.subtract(event_ms, _ms(batch["ingested_at"]))
        is_event = reduce(
            pc.and_,
            (
                pc.less_equal(pc.binary_length(batch["value"]), MAX_VALUE_BYTES),
                _is_true(pc.not_equal(pc.ascii_ltrim(device_id, " "), "")),
                _is_true(pc.less_equal(pc.binary_length(device_id), MAX_ID_CODE_POINTS)),
                pc.less_equal(pc.fill_null(pc.binary_length(account_id), 0), MAX_ID_CODE_POINTS),
                pc.less_equal(ahead_ms, self.limits.max_clock_skew_ms),
                pc.greater_equal(ahead_ms, -self.limits.max_event_age_ms),
            ),
        )
        fields = (
            device_id,
            texts("appSessionId").cast(pa.int64()),
            is_start,
            event_ms,
            pc.if_else(is_start, None, texts("totalFgTime").cast(pa.int64())),
            account_id,
        )
        yield _output_batch(
            batch.filter(is_event), pa.StructArray.from_arrays(fields, list(_PLAIN_FIELDS)).filter(is_event)
        )
        yield _output_batch(batch.filter(pc.invert(is_event)))


def _form_pattern(value: bytes | None, device_field: str) -> str | None:
    """The regular expression for messages with the same fields in the same order; None if `value` is not plain."""
    if value is None or len(value) > MAX_VALUE_BYTES or not _FLAT.fullmatch(value):
        return None
    names = [name.decode() for name in _NAME.findall(value)]
    required = _REQUIRED_MEMBERS | {device_field: f'"(?P<{device_field}>{_CHARACTER}*)"'}
    if len(names) > _MOST_FIELDS or len(set(names)) < len(names) or not required.keys() <= set(names):
        return None
    known = required | _OPTIONAL_MEMBERS
    members = (f'"{name}" ?: ?{known.get(name, _ANY_VALUE)}' for name in names)
    return rf"\A\{{{', ?'.join(members)}\}}\z"


def _is_true(marks: pa.Array) -> pa.Array:
    return pc.fill_null(marks, False)


def _ms(instants: pa.Array) -> pa.Array:
    """Milliseconds, rounded down as by Spark's `unix_millis`."""
    return pc.floor_temporal(instants, unit="millisecond").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())


def _output_batch(batch: pa.RecordBatch, fields: pa.StructArray | None = None) -> pa.RecordBatch:
    """The messages with their fields in place of their text, or with their text."""
    value = batch["value"] if fields is None else pa.nulls(len(batch), pa.binary())
    plain = pa.nulls(len(batch), _PLAIN) if fields is None else fields
    return pa.RecordBatch.from_arrays(
        [batch["stream"], batch["ingested_at"], value, plain], names=["stream", "ingested_at", "value", "plain"]
    )
