"""The event time of a message as UTC milliseconds, from each format that an event map can name."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sessionization.spark.input.variant_values import bigint_or_null, digits_or_null, string_or_null

_DATE, _TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}", r"[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?"
_HOURS, _MINUTES = "([01][0-9]|2[0-3])", "[0-5][0-9]"
_ANY_OFFSET = rf"(Z|[+-]{_HOURS}(:?{_MINUTES})?)"
_PATTERNS = {
    "iso8601": rf"{_DATE}T{_TIME}(Z|[+-]{_HOURS}:{_MINUTES})\z",
    "iso8601_basic_offset": rf"{_DATE}T{_TIME}{_ANY_OFFSET}\z",
    "sql_timestamp": rf"{_DATE}[T ]{_TIME}( ?{_ANY_OFFSET})?\z",
}
_OFFSET, _BASIC_OFFSET = "([+-])([0-9]{2}):([0-9]{2})$", "([+-])([0-9]{2})(:?[0-9]{2})?$"
_FURTHEST_MS = 1 << 60
"""Later and earlier times are out of every bound, and would overflow in a difference."""
_MOST_DIGITS = 15
"""A number of seconds with more digits before the point is beyond `_FURTHEST_MS`."""


def written_time(value: Column, time_format: str) -> Column:
    """The field as `epoch_ms` converts it, null where it is of another type."""
    match time_format:
        case "epoch_ms":
            return bigint_or_null(value)
        case "epoch_s":
            return digits_or_null(value)
        case _:
            return string_or_null(value)


def with_offset(rows: DataFrame, time_format: str) -> DataFrame:
    """Add the column `_offset` of the text in `_event_time`, where the format has one."""
    if time_format.startswith("epoch"):
        return rows
    pattern = _OFFSET if time_format == "iso8601" else _BASIC_OFFSET
    return rows.withColumn("_offset", F.regexp_extract("_event_time", pattern, 0))


def epoch_ms(time_format: str) -> Column:
    """Convert `_event_time` to UTC milliseconds, and cut further digits; null for any other text."""
    match time_format:
        case "epoch_ms":
            bounded = F.greatest(F.least("_event_time", F.lit(_FURTHEST_MS)), F.lit(-_FURTHEST_MS))
            return F.when(F.col("_event_time").isNotNull(), bounded)
        case "epoch_s":
            return _ms_of_seconds()
        case _:
            return _ms_of_text(time_format)


def _ms_of_text(time_format: str) -> Column:
    event_time, offset = F.col("_event_time"), F.col("_offset")
    seconds = F.unix_seconds(F.concat(F.substring(event_time, 1, 19), F.lit("Z")).try_cast("timestamp"))
    fraction = F.rpad(F.substring(F.regexp_extract(event_time, "[.]([0-9]+)", 1), 1, 3), 3, "0").cast("int")
    minutes = F.substring(offset, 5, 2)
    if time_format != "iso8601":
        minutes = F.when(F.length(offset) == len("+00"), "0").otherwise(F.substring(offset, -2, 2))
    offset_minutes = F.substring(offset, 2, 2).try_cast("int") * 60 + minutes.try_cast("int")
    offset_s = F.when(offset == "", 0).otherwise(F.when(offset.startswith("-"), -60).otherwise(60) * offset_minutes)
    return F.when(event_time.rlike(_PATTERNS[time_format]), (seconds - offset_s) * 1000 + fraction)


def _ms_of_seconds() -> Column:
    """Convert decimal digits of seconds; as text, because a decimal is rounded where it has to be cut."""
    digits = F.col("_event_time")
    whole = F.regexp_extract(digits, "^-?([0-9]+)", 1)
    fraction = F.rpad(F.substring(F.regexp_extract(digits, "[.]([0-9]+)", 1), 1, 3), 3, "0").cast("int")
    ms = F.when(F.length(whole) > _MOST_DIGITS, F.lit(_FURTHEST_MS)).otherwise(whole.cast("bigint") * 1000 + fraction)
    return F.when(digits.startswith("-"), -ms).otherwise(ms)
