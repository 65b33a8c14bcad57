"""Rows of Spark as Postgres takes them.

The smallest Start and the greatest end of a session are structs, which Spark compares field by field. Here each is one
text whose bytes have the same order, so that `least` and `greatest` in Postgres mean the same.
"""

from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute  # type: ignore[import-untyped]
import pyarrow.csv  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sessionization.clock import utc

_SEPARATOR = "\x01"
_DIGITS = 19
_YEAR_0_US = 10**17
"""Added to microseconds, so that no year of a device's clock makes them negative."""
ROWS_AT_ONCE = 500_000
"""Bound on the rows that are held in the driver's memory, a few hundred bytes each."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """What stands before each value of a field, and for null: so nulls are the smallest, or the greatest."""

    value: str
    null: str


FIRST = Encoding(value="0", null="1")
"""Of Starts the smallest counts, and null is no Start: nulls are the greatest."""
SHOWN = Encoding(value="1", null="0")


def ordered_field(encoding: Encoding, number: int, name: str) -> str:
    """SQL of Postgres for a field of `first_start` or `shown_end`; the first one has the number 1."""
    column = "first_start" if encoding is FIRST else "shown_end"
    part = f"split_part({column}, E'\\x{ord(_SEPARATOR):02x}', {number})"
    text = f"CASE WHEN {part} <> '{encoding.null}' THEN substr({part}, 2) END"
    return f"to_timestamp((({text})::bigint - {_YEAR_0_US}) / 1e6)" if name.endswith("_at") else f"({text})"


def flattened(folded: DataFrame) -> DataFrame:
    """The six columns of `incoming`, from rows of `sessions` or of `rollup.fold_by_session`."""
    types = dict(folded.dtypes)
    return folded.select(
        *(
            _text(name, "string").alias(name) if types[name] == "string" else name
            for name in ("device_id", "session_id")
        ),
        "started_at",
        "updated_at",
        _ordered(folded, "_first_start", FIRST).alias("first_start"),
        _ordered(folded, "_shown_end", SHOWN).alias("shown_end"),
    )


def served(sessions: DataFrame, keep_ended_ms: int, now_ms: int) -> DataFrame:
    """The rows of `sessions` that are served: those that are live, and those that ended less than this long ago."""
    since = F.lit(utc(now_ms - keep_ended_ms))
    return sessions.where((F.col("status") == "live") | (F.col("ended_at") >= since))


def write_csv(rows: pa.Table, file: BinaryIO) -> None:
    """Append CSV without a header: null is nothing, an empty text is in quotes."""
    pa.csv.write_csv(rows, file, pa.csv.WriteOptions(include_header=False))


def newest_update(rows: pa.Table) -> int | None:
    """The newest `updated_at`, UTC milliseconds; None without rows."""
    newest = pa.compute.max(rows["updated_at"]).as_py()
    return None if newest is None else int(newest.timestamp() * 1000)


def write_in_parts(rows: DataFrame, file: BinaryIO) -> None:
    """Append all rows as CSV, of which a part is in memory at a time."""
    parts = 1 + rows.count() // ROWS_AT_ONCE
    for part in range(parts):
        write_csv(rows.where(f"pmod(xxhash64(device_id, session_id), {parts}) = {part}").toArrow(), file)


def _ordered(rows: DataFrame, struct: str, encoding: Encoding) -> Column:
    fields = (
        F.coalesce(
            F.concat(F.lit(encoding.value), _text(f"{struct}.`{field.name}`", field.dataType.simpleString())),
            F.lit(encoding.null),
        )
        for field in rows.schema[struct].dataType  # type: ignore[attr-defined]
    )
    return F.when(F.col(struct).isNotNull(), F.concat_ws(_SEPARATOR, *fields))


def _text(name: str, type_: str) -> Column:
    """A value as text whose bytes have its order. Postgres takes neither a character 0 nor bytes that are no UTF-8."""
    if type_ == "string":
        return F.make_valid_utf8(F.translate(name, "\0" + _SEPARATOR, "\ufffd\ufffd"))
    number = F.unix_micros(name) + _YEAR_0_US if type_ == "timestamp" else F.col(name)
    return F.lpad(number.cast("string"), _DIGITS, "0")
