"""Archived messages -> events: what is written plainly by whole columns of text, all else by the stream's parser.

The parser reads any JSON there is, at a dozen microseconds a message. Nearly all messages are one flat object of ASCII
text without escapes and of whole numbers, with the fields in the order of many others: one regular expression reads
those for a tenth of that. It takes what surely is an event; whatever it passes over, broken messages too, the parser
reads, so that both ways say the same.
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
_ANY = f'(?:"{_CHARACTER}*"|{_NUMBER}|true|false|null)'
_MEMBER = f'"[A-Za-z0-9_]+" ?: ?{_ANY}'
_FLAT = re.compile(rf"\{{{_MEMBER}(?:, ?{_MEMBER})*\}}".encode())
_NAME = re.compile(b'"([A-Za-z0-9_]+)" ?:')
# The 29th of February is left to the parser.
_DATE = (
    "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_INSTANT = rf"{_DATE}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{3}})?Z"
_NEEDED = {
    "appSessionId": f"(?P<appSessionId>{_NUMBER})",
    "eventId": f'"(?P<eventId>{START_EVENT}|{END_EVENT})"',
    "timestamp": f'"(?P<timestamp>{_INSTANT})"',
}
_OPTIONAL = {
    "psnAccountId": f'(?:null|"(?P<psnAccountId>{_CHARACTER}*)")',
    "totalFgTime": "(?:null|(?P<totalFgTime>0|[1-9][0-9]{0,17}))",
}
_FIELDS = 32
"""Bound on the fields of a form: the engine of regular expressions refuses what is too long."""
_FORMS = 16
"""How many orders of fields are looked for in a batch: it has some ten thousand messages, of which a few are broken."""


def read_events(messages: DataFrame, limits: EventTimeLimits) -> DataFrame:
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

    def _read(self, left: pa.RecordBatch, device_field: str) -> Iterator[pa.RecordBatch]:
        """Again and again, all that are of the form of the first one that is left."""
        for _ in range(_FORMS):
            if not left.num_rows:
                return
            form = _form_of(left["value"][0].as_py(), device_field)
            read = pa.nulls(len(left)) if form is None else pc.extract_regex(left["value"], form)
            if read[0].is_valid:
                yield from self._judged(left.filter(read.is_valid()), read.drop_null(), device_field)
                left = left.filter(read.is_null())
            else:
                yield _told(left.slice(0, 1))
                left = left.slice(1)
        yield _told(left)

    def _judged(self, batch: pa.RecordBatch, read: pa.StructArray, device_field: str) -> Iterator[pa.RecordBatch]:
        """The messages with what was read of them, or without where that is no event for sure."""

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
                _surely(pc.not_equal(pc.ascii_ltrim(device_id, " "), "")),
                _surely(pc.less_equal(pc.binary_length(device_id), MAX_ID_CODE_POINTS)),
                pc.less_equal(pc.fill_null(pc.binary_length(account_id), 0), MAX_ID_CODE_POINTS),
                pc.less_equal(ahead_ms, self.limits.max_clock_skew_ms),
                pc.greater_equal(ahead_ms, -self.limits.max_event_age_ms),
            ),
        )
        said = (
            device_id,
            texts("appSessionId").cast(pa.int64()),
            is_start,
            event_ms,
            pc.if_else(is_start, None, texts("totalFgTime").cast(pa.int64())),
            account_id,
        )
        yield _told(batch.filter(is_event), pa.StructArray.from_arrays(said, list(_SAID)).filter(is_event))
        yield _told(batch.filter(pc.invert(is_event)))


def _form_of(value: bytes | None, device_field: str) -> str | None:
    """The regular expression of all messages with the same fields in the same order; none where that is no plain one."""
    if value is None or len(value) > MAX_VALUE_BYTES or not _FLAT.fullmatch(value):
        return None
    names = [name.decode() for name in _NAME.findall(value)]
    needed = _NEEDED | {device_field: f'"(?P<{device_field}>{_CHARACTER}*)"'}
    if len(names) > _FIELDS or len(set(names)) < len(names) or not needed.keys() <= set(names):
        return None
    known = needed | _OPTIONAL
    members = (f'"{name}" ?: ?{known.get(name, _ANY)}' for name in names)
    return rf"\A\{{{', ?'.join(members)}\}}\z"


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
