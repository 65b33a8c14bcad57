"""Parse messages into valid events, or give a quarantine reason. Native columns only, no Python per row."""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sessionization.streams import PC_STREAM

MAX_VALUE_BYTES = 64 * 1024
MAX_ID_CODE_POINTS = 256
START_EVENT = "ApplicationSessionStart"
END_EVENT = "ApplicationSessionEndBi"

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
"""The columns of a valid event, in this order, with their types in Spark."""

# Variant preserves the type that the sender wrote, so 7, "7" and 7.0 stay distinct. Unknown fields are skipped.
_WIRE_FIELDS = ("appSessionId", "eventId", "psnAccountId", "hostPcId", "openPsid", "timestamp", "totalFgTime")
_WIRE_SCHEMA = f"array<struct<{', '.join(f'{name}: variant' for name in _WIRE_FIELDS)}>>"
_STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_EVENT_TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])\z"
)


@dataclass(frozen=True, slots=True)
class EventTimeLimits:
    """The largest distances between an event's time and its ingest time, in milliseconds."""

    max_clock_skew_ms: int
    max_event_age_ms: int


def parse(messages: DataFrame, limits: EventTimeLimits) -> DataFrame:
    """Add the parsed columns to every message, and `reason`: why it is quarantined, or null for a valid event.

    Args:
        messages: one row per message, with at least `stream` string, `ingested_at` timestamp, `value` binary.
        limits: the bounds on event time.

    Returns:
        The rows and columns of `messages`, with `EVENT_COLUMNS` and `reason` string: the first one of docs/tables.md
        that applies.
    """
    # An expression that is used more than once becomes a column, because Spark would compute it again at each use.
    input_columns = messages.columns
    text = F.when(F.octet_length("value") <= MAX_VALUE_BYTES, F.col("value").cast("string"))
    decoded = messages.select(*input_columns, text.alias("_text")).select(
        *input_columns,
        "_text",
        # The reader stops after the first JSON value. Inside an array other characters may follow that value than
        # inside an object. So a text that is well-formed in both places holds one value and nothing else.
        F.from_json(F.concat(F.lit("["), "_text", F.lit("]")), _WIRE_SCHEMA, _STRICT_JSON).alias("_array"),
        F.from_json(F.concat(F.lit('{"value":'), "_text", F.lit("}")), "map<string, string>", _STRICT_JSON)
        .isNotNull()
        .alias("_is_one_value"),
    )
    is_object = (
        F.is_valid_utf8("_text") & (F.size("_array") == 1) & F.col("_is_one_value") & F.col("_text").rlike(r"^\s*\{")
    )
    wire = decoded.select(*input_columns, F.when(is_object, F.col("_array")[0]).alias("_wire"))

    device = F.when(F.col("stream") == PC_STREAM, F.col("_wire.hostPcId")).otherwise(F.col("_wire.openPsid"))
    texts = wire.select(*input_columns, "_wire", device.alias("_device")).select(
        *input_columns,
        "_wire",
        _string_or_null(F.col("_device")).alias("device_id"),
        _string_or_null(F.col("_wire.eventId")).alias("_event_id"),
        _string_or_null(F.col("_wire.timestamp")).alias("_event_time"),
        _string_or_null(F.col("_wire.psnAccountId")).alias("_account_id"),
    )
    typed = texts.withColumn("_offset", F.regexp_extract("_event_time", "([+-])([0-9]{2}):([0-9]{2})$", 0)).select(
        *input_columns,
        F.col("_wire").isNotNull().alias("_is_object"),
        "device_id",
        _bigint_or_null("appSessionId").alias("session_id"),
        F.when(F.col("_event_id") == START_EVENT, True).when(F.col("_event_id") == END_EVENT, False).alias("is_start"),
        _epoch_ms().alias("event_ms"),
        F.when(F.col("_event_id") == END_EVENT, _bigint_or_null("totalFgTime")).alias("foreground_s"),
        F.when(F.col("_account_id") != "", F.col("_account_id")).alias("account_id"),
        F.when(F.col("stream") == PC_STREAM, "pc").otherwise("console").alias("platform"),
        F.unix_millis("ingested_at").alias("ingested_ms"),
    )
    return typed.withColumn("reason", _quarantine_reason(limits)).drop("_is_object")


def valid_events(parsed: DataFrame) -> DataFrame:
    """Select the valid events from the rows of `parse`, with the event's columns only."""
    return parsed.where("reason IS NULL").select(*EVENT_COLUMNS)


def _quarantine_reason(limits: EventTimeLimits) -> Column:
    too_long = (F.length("device_id") > MAX_ID_CODE_POINTS) | (F.length("account_id") > MAX_ID_CODE_POINTS)
    ahead_ms = F.col("event_ms") - F.col("ingested_ms")
    return (
        F.when((F.octet_length("value") > MAX_VALUE_BYTES) | too_long, "oversized")
        .when(~F.col("_is_object"), "malformed_json")
        .when(F.col("device_id").isNull() | F.col("device_id").rlike(r"(?U)^\s*\z"), "missing_device_id")
        .when(F.col("session_id").isNull(), "missing_session_id")
        .when(F.col("event_ms").isNull(), "missing_event_time")
        .when(F.col("is_start").isNull(), "unknown_event")
        .when(ahead_ms > limits.max_clock_skew_ms, "event_time_in_future")
        .when(ahead_ms < -limits.max_event_age_ms, "event_time_too_old")
        .when(F.col("foreground_s") < 0, "negative_foreground")
    )


def _string_or_null(value: Column) -> Column:
    """The field if it is a JSON string; null for 7 and for objects."""
    return F.when(F.schema_of_variant(value) == "STRING", F.try_variant_get(value, "$", "string"))


def _bigint_or_null(field: str) -> Column:
    """The field if it is a JSON integer of 64 bits; null for "7" and for 7.0."""
    value = F.col(f"_wire.{field}")
    return F.when(F.schema_of_variant(value) == "BIGINT", F.try_variant_get(value, "$", "bigint"))


def _epoch_ms() -> Column:
    """Convert ISO 8601 text to UTC milliseconds, and cut further digits; null for any other text."""
    event_time, offset = F.col("_event_time"), F.col("_offset")
    seconds = F.unix_seconds(F.concat(F.substring(event_time, 1, 19), F.lit("Z")).try_cast("timestamp"))
    fraction = F.rpad(F.substring(F.regexp_extract(event_time, "[.]([0-9]+)", 1), 1, 3), 3, "0").cast("int")
    offset_minutes = F.substring(offset, 2, 2).try_cast("int") * 60 + F.substring(offset, 5, 2).try_cast("int")
    offset_s = F.when(offset == "", 0).otherwise(F.when(offset.startswith("-"), -60).otherwise(60) * offset_minutes)
    return F.when(event_time.rlike(_EVENT_TIME), (seconds - offset_s) * 1000 + fraction)
