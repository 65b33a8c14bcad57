"""Messages from Kafka topics, and the errors of brokers that do not deliver them."""

import json
import re
from collections.abc import Iterable
from typing import Protocol

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sessionization.errors import ConfigurationError
from sessionization.settings.kafka_options import resolve_secrets
from sessionization.settings.sessionize_settings import KafkaSource, SessionizeSettings
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.secrets import secret_reader
from sessionization.spark.input.topic_offsets import Offsets

CLOCKS_DIFFER_MS = 60_000
"""How long before the first start `--starting-offsets latest` reads from: the brokers' clocks may be behind."""
_ANSWER_WITHIN_MS = 10_000
_UNKNOWN_TOPIC = r"UnknownTopic\w*Exception|UNKNOWN_TOPIC"
_REFUSALS = (
    (
        _UNKNOWN_TOPIC,
        "has no topic {topic} now: if it was there before, start again in a minute, or name the brokers that have it; "
        "create it only if it never was there (docs/runbook.md, 'A topic was deleted')",
    ),
    (  # the cause may repeat words of the line
        r"JAAS config|Could not find a .KafkaClient. entry|No LoginModule found|Class \S+ could not be found",
        'cannot be signed in to: kafka.sasl.jaas.config is missing, is no JAAS line (CLASS required NAME="VALUE"; with '
        "the semicolon), or a class of --kafka-option is not there (docs/kafka.md)",
    ),
    (
        r"PKIX path|token endpoint|retrieving token|AWS IAM Credentials|Unable to load credentials|"
        r"(?:Sasl|Ssl)\w*Exception|\w*(?:Authentication|Authorization)Exception",
        "does not let this job read {topic} ({cause}): check kafka.sasl.jaas.config, certificates (kafka.ssl.*) and "
        "the topic's permissions (docs/kafka.md)",
    ),
    (
        r"No resolvable bootstrap urls|Invalid url in bootstrap",
        "is no broker's address: write HOST:PORT, several with commas, and check the names",
    ),
    (
        r"TimeoutException|DisconnectException",
        f"does not answer within {_ANSWER_WITHIN_MS // 1_000} s: is the broker up, and the address right?",
    ),
)


class Brokers(Protocol):
    """Settings that name the brokers and the options of the Kafka client."""

    @property
    def kafka(self) -> KafkaSource: ...


def kafka_messages(
    spark: SparkSession,
    settings: SessionizeSettings,
    created_ms: int,
    max_offsets: int | None,
    starts: Offsets | None = None,
) -> DataFrame:
    """Stream the topics from the position in the query's checkpoint, at first from `--starting-offsets`.

    `latest` means the same instant for every query. Otherwise a message that arrives between the starts of two
    queries would reach only one of them.

    Args:
        spark: the session.
        settings: the brokers, and the options of the Kafka client.
        created_ms: when the checkpoint was created.
        max_offsets: the highest number of messages in a micro-batch.
        starts: the first offset of every existing partition, in place of `--starting-offsets`.

    Returns:
        `stream` (the topic), `partition`, `offset`, `file` (null), `ingested_at` (the broker's timestamp), `value`
        binary (null where the record has none), `value_bytes`.
    """
    options = client_options(spark, settings) | {
        "subscribe": ",".join(settings.event_map.stream_names),
        "failOnDataLoss": str(not settings.kafka.accept_data_loss).lower(),
    }
    if max_offsets is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets)
    if starts is not None:
        options["startingOffsets"] = json.dumps(starts)
    elif settings.kafka.starting_offsets == "latest":
        options["startingTimestamp"] = str(created_ms - CLOCKS_DIFFER_MS)
        options["startingOffsetsByTimestampStrategy"] = "latest"
    else:
        options["startingOffsets"] = "earliest"
    records = spark.readStream.format("kafka").options(**options).load()
    return records.select(
        F.col("topic").alias("stream"),
        "partition",
        "offset",
        F.lit(None).cast("string").alias("file"),
        F.col("timestamp").alias("ingested_at"),
        "value",
        F.octet_length("value").cast("bigint").alias("value_bytes"),
    )


def check_topics(spark: SparkSession, settings: Brokers, topics: tuple[str, ...]) -> None:
    """Check that the brokers deliver each topic, with short timeouts.

    A query would retry for minutes, and its error would name no topic.

    Raises `ConfigurationError`.
    """
    options = client_options(spark, settings) | {
        "kafka.default.api.timeout.ms": str(_ANSWER_WITHIN_MS),
        "kafka.request.timeout.ms": str(_ANSWER_WITHIN_MS // 2),
        "fetchOffset.numRetries": "1",
        "failOnDataLoss": "false",
    }
    for topic in topics:
        try:
            spark.read.format("kafka").options(**options).option("subscribe", topic).load().select("offset").limit(
                1
            ).collect()
        except Py4JNetworkError:
            raise
        except (PySparkException, Py4JError) as error:
            raise ConfigurationError(_refusal(settings, topic, str(error))) from error


def remedy_for_topics(
    spark: SparkSession, settings: Brokers, topics: tuple[str, ...], causes: Iterable[str]
) -> str | None:
    """If a query ended because a topic was unknown, ask again, and return what to do; None for other causes.

    A topic is unknown for a moment while its leader changes or a broker restarts.
    """
    if not any(re.search(_UNKNOWN_TOPIC, cause) for cause in causes):
        return None
    try:
        check_topics(spark, settings, topics)
    except ConfigurationError as error:
        return str(error)
    return "the topics are there now: nothing is lost, unless one was made anew; start again with the same options"


def _refusal(settings: Brokers, topic: str, error_text: str) -> str:
    brokers = f"--bootstrap-servers {settings.kafka.bootstrap_servers}"
    for pattern, message in _REFUSALS:
        if re.search(pattern, error_text):
            return f"{brokers} {message.format(topic=topic, cause=root_cause(error_text))}"
    return f"{brokers}: topic {topic} cannot be read: {root_cause(error_text)}"


def client_options(spark: SparkSession, settings: Brokers) -> dict[str, str]:
    """Return the Kafka client's options with the brokers, and with secrets filled in; raises `ConfigurationError`.

    Unless the settings say otherwise, readers take no record of a transaction before it is committed.
    """
    secrets = resolve_secrets(settings.kafka.kafka_option, secret_reader(spark))
    options = {"kafka.isolation.level": "read_committed"} | secrets
    return options | {"kafka.bootstrap.servers": str(settings.kafka.bootstrap_servers)}
