"""What brokers tell of topics, through the admin client of the engine's JVM."""

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.private_spark import jvm_of
from sessionization.say import Say
from sessionization.settings.kafka_options import uses_service_credential
from sessionization.spark.engine.error_text import root_cause
from sessionization.spark.input.kafka_source import Brokers, client_options

_ANSWER_WITHIN_MS = 10_000
_PACKAGE = "org.apache.kafka"
_SHADED = "kafkashaded."
"""The prefix of Kafka's classes on Databricks, as in the class of a JAAS line there."""


def refuse_compacted_topics(
    spark: SparkSession, brokers: Brokers, topics: tuple[str, ...], warn: Say, *, is_new: bool = True
) -> None:
    """Check that no topic is compacted, as far as the brokers tell.

    Raises `ConfigurationError` for a compacted topic. Where the stream is not new, it is only a warning: a refusal
    would let it wait while the brokers go on compacting.
    """
    names = " or ".join(topics)
    if uses_service_credential(brokers.kafka.kafka_option):
        warn(
            f"whether {names} is compacted is not checked, because only Spark's Kafka source has the service "
            "credential: see that cleanup.policy is delete"
        )
        return
    try:
        policies = _cleanup_policies(spark, brokers, topics)
    except Py4JNetworkError:
        raise
    except (Py4JError, TypeError) as error:  # TypeError: the engine has no such class
        policies = dict.fromkeys(topics, error)
    for topic, policy in policies.items():
        if isinstance(policy, Exception):
            warn(
                f"whether {topic} is compacted cannot be checked ({java_cause(policy)}): "
                "see that cleanup.policy is delete, or allow DescribeConfigs to the job's user"
            )
        elif "compact" in policy:
            msg = (
                f"topic {topic} has cleanup.policy={policy}: the brokers delete a message, read or not, once there is "
                "a newer one with its key: set cleanup.policy=delete on the topic, and retention.ms"
            )
            if is_new:
                raise ConfigurationError(msg)
            warn(msg)


def _cleanup_policies(spark: SparkSession, brokers: Brokers, topics: tuple[str, ...]) -> dict[str, str | Exception]:
    """The `cleanup.policy` of each topic, or why it cannot be read, by a client with the job's own settings.

    Raises `Py4JError` where there is no such client.
    """
    settings = {
        name.removeprefix("kafka."): value
        for name, value in client_options(spark, brokers).items()
        if name.startswith("kafka.")
    }
    within = str(_ANSWER_WITHIN_MS)
    settings |= {"default.api.timeout.ms": within, "request.timeout.ms": within}
    jvm = jvm_of(spark)
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    prefix = _SHADED if _exists(jvm, loader, f"{_SHADED}{_PACKAGE}.clients.admin.AdminClient") else ""
    kafka = jvm
    for name in f"{prefix}{_PACKAGE}".split("."):
        kafka = getattr(kafka, name)
    config = kafka.common.config
    resources = {topic: config.ConfigResource(config.ConfigResource.Type.TOPIC, topic) for topic in topics}
    asked = jvm.java.util.ArrayList(list(resources.values()))
    admin = kafka.clients.admin.AdminClient.create(jvm.java.util.HashMap(settings))
    try:
        answers = admin.describeConfigs(asked).values()
        return {topic: _policy(answers.get(resource)) for topic, resource in resources.items()}
    finally:
        admin.close()


def _policy(answer: Any) -> str | Py4JJavaError:
    try:
        return str(answer.get().get("cleanup.policy").value())
    except Py4JJavaError as error:
        return error


def java_cause(error: Exception) -> str:
    """The innermost cause of an error in the JVM."""
    if not isinstance(error, Py4JJavaError):
        return root_cause(str(error))
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return root_cause(str(cause.toString()))


def _exists(jvm: Any, loader: Any, name: str) -> bool:
    try:
        jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError:
        return False
    return True
