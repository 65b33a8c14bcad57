"""Values of JSON fields as columns. Variant keeps the type that the sender wrote: 7, "7" and 7.0 stay distinct."""

from pyspark.sql import Column
from pyspark.sql import functions as F

_TEXT, _INTEGER, _BOOLEAN = "STRING", "BIGINT", "BOOLEAN"
_EXACT_NUMBER = r"^(BIGINT|DECIMAL.*)\z"
"""The types of JSON numbers without exponent, of up to 38 digits."""


def string_or_null(value: Column) -> Column:
    """The field if it is a JSON string; null for 7 and for objects."""
    return F.when(F.schema_of_variant(value) == _TEXT, F.try_variant_get(value, "$", "string"))


def bigint_or_null(value: Column) -> Column:
    """The field if it is a JSON integer of 64 bits; null for "7" and for 7.0."""
    return F.when(F.schema_of_variant(value) == _INTEGER, F.try_variant_get(value, "$", "bigint"))


def text_or_null(value: Column) -> Column:
    """The field if it is a JSON string, or a JSON integer of 64 bits in decimal digits."""
    kind = F.schema_of_variant(value)
    return F.when((kind == _TEXT) | (kind == _INTEGER), F.try_variant_get(value, "$", "string"))


def label_or_null(value: Column) -> Column:
    """The field if it is a JSON string, integer of 64 bits or boolean, as text."""
    kind = F.schema_of_variant(value)
    return F.when(kind.isin(_TEXT, _INTEGER, _BOOLEAN), F.try_variant_get(value, "$", "string"))


def digits_or_null(value: Column) -> Column:
    """The digits of the field if it is a JSON number without exponent: `-12.5`."""
    return F.when(F.schema_of_variant(value).rlike(_EXACT_NUMBER), F.try_variant_get(value, "$", "string"))
