"""The texts of messages: of those in the frame of a schema registry the JSON that Avro becomes."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from ssl import SSLError, create_default_context

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from sessionization.avro.registry import Registry
from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.parts import SchemaRegistry
from sessionization.message_limits import MAX_VALUE_BYTES
from sessionization.settings.kafka_options import resolve_secrets
from sessionization.spark.input.secrets import secret_reader


def message_text(spark: SparkSession, events: EventMap) -> Column:
    """The text of the column `value`; null where that is too large, or Avro that cannot be decoded."""
    value = F.when(F.octet_length("value") <= MAX_VALUE_BYTES, F.col("value"))
    return (value if events.schema_registry is None else _decoded(value, registry_of(spark, events))).cast("string")


def check_registry(spark: SparkSession, events: EventMap) -> None:
    """Raises `ConfigurationError` where the map has a schema registry that does not answer, or refuses this user."""
    if events.schema_registry is not None:
        registry_of(spark, events).check()


def registry_of(spark: SparkSession, events: EventMap) -> Registry:
    """The map's schema registry, with secrets filled in; raises `ConfigurationError`."""
    given = events.schema_registry
    assert given is not None
    if find_spec("fastavro") is None:
        msg = "value: avro needs the package fastavro: install the extra avro (docs/error-messages.md)"
        raise ConfigurationError(msg)
    if given.is_folder:
        return Registry(str(Path(given.url).absolute()))
    options = {name: value for name, value in (("user", given.user), ("password", given.password)) if value is not None}
    return Registry(
        given.url, **resolve_secrets(options, secret_reader(spark), "schema_registry."), authorities=_authorities(given)
    )


def _authorities(given: SchemaRegistry) -> str | None:
    """The text of the file of certificates, which tasks elsewhere need not find."""
    if given.ca_file is None:
        return None
    try:
        text = Path(given.ca_file).read_text(encoding="ascii")
        create_default_context(cadata=text)
    except (OSError, ValueError) as error:
        cause = error.reason if isinstance(error, SSLError) else getattr(error, "strerror", None)
        msg = f"schema_registry.ca_file {given.ca_file} is no file of certificates ({cause}): name one in the form PEM"
        raise ConfigurationError(msg) from error
    return text


def _decoded(value: Column, registry: Registry) -> Column:
    from sessionization.avro.decoder import Decoder  # needs the extra

    @arrow_udf("binary")  # type: ignore[untyped-decorator]
    def json_of_avro(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        decoder = Decoder(registry)
        for batch in batches:
            yield pa.array([decoder.json_of(message) for message in batch.to_pylist()], pa.binary())

    return json_of_avro(value)  # type: ignore[no-any-return]
