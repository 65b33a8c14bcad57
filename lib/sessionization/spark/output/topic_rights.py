"""Whether the job may write to the topic of changes."""

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.kafka_source import Brokers, client_options

_ANSWER_WITHIN_MS = 10_000
_CLIENT = "org.apache.kafka.clients.admin"
_SHADED = "kafkashaded."
"""The prefix of Kafka's classes on Databricks, as in the class of a JAAS line there."""


def refuse_unwritable_topic(spark: SparkSession, brokers: Brokers, topic: str) -> None:
    """Ask the brokers which operations on a topic they allow to this job, with the job's own client settings.

    No record is sent: every consumer of the topic would get it, and a record of an aborted transaction too, unless the
    consumer asks for committed ones only. The brokers answer by the same rules by which they accept a record. What they
    do not tell so is a quota, and a full disk. Without an authorizer they allow everything.

    Raises `ConfigurationError` where writing is not allowed, or the brokers do not answer.
    """
    settings = {
        name.removeprefix("kafka."): value
        for name, value in client_options(spark, brokers).items()
        if name.startswith("kafka.")
    }
    within = str(_ANSWER_WITHIN_MS)
    settings |= {"default.api.timeout.ms": within, "request.timeout.ms": within}
    place = f"--bootstrap-servers {brokers.bootstrap_servers}"
    try:
        allowed = _allowed_operations(spark, settings, topic)
    except Py4JNetworkError:
        raise
    except Py4JError as error:
        cause = root_cause(_text(error))
        msg = f"{place}: the permissions on topic {topic} cannot be read ({cause}): see to the --kafka-option values"
        raise ConfigurationError(msg) from error
    if allowed is not None and "WRITE" not in allowed:
        operations = ", ".join(sorted(allowed)) or "nothing"
        msg = (
            f"{place} does not let this job write to {topic} (it allows {operations}): "
            "add the permission Write on that topic for the job's user"
        )
        raise ConfigurationError(msg)


def _allowed_operations(spark: SparkSession, settings: dict[str, str], topic: str) -> set[str] | None:
    """The operations by Kafka's names, such as READ; None where the brokers are too old to tell them."""
    jvm: Any = spark._jvm  # noqa: SLF001 - Spark has no way to Kafka's permissions
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    prefix = _SHADED if _exists(jvm, loader, f"{_SHADED}{_CLIENT}.AdminClient") else ""
    kafka = jvm
    for name in f"{prefix}{_CLIENT}".split("."):
        kafka = getattr(kafka, name)
    properties = jvm.java.util.HashMap(settings)
    admin = kafka.AdminClient.create(properties)
    try:
        options = kafka.DescribeTopicsOptions().includeAuthorizedOperations(True)
        names = jvm.java.util.ArrayList()
        names.add(topic)
        described = admin.describeTopics(names, options).allTopicNames().get().get(topic)
        operations = described.authorizedOperations()
        return None if operations is None else {str(operation.toString()) for operation in operations}
    finally:
        admin.close()


def _exists(jvm: Any, loader: Any, name: str) -> bool:
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True


def _text(error: Py4JError) -> str:
    if not isinstance(error, Py4JJavaError):
        return str(error)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString())
