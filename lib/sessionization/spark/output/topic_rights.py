"""Whether the job may write to the topic of changes."""

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.private_spark import jvm_of
from sessionization.spark.input.kafka_source import Brokers
from sessionization.spark.input.topic_admin import java_cause, topic_admin


def refuse_unwritable_topic(spark: SparkSession, brokers: Brokers, topic: str) -> None:
    """Ask the brokers which operations on a topic they allow to this job, with the job's own client settings.

    No record is sent: every consumer of the topic would get it, and a record of an aborted transaction too, unless the
    consumer asks for committed ones only. The brokers answer by the same rules by which they accept a record. What they
    do not tell so is a quota, and a full disk. Without an authorizer they allow everything.

    Raises `ConfigurationError` where writing is not allowed, or the brokers do not answer.
    """
    place = f"--bootstrap-servers {brokers.kafka.bootstrap_servers}"
    try:
        allowed = _allowed_operations(spark, brokers, topic)
    except Py4JNetworkError:
        raise
    except Py4JError as error:
        cause = java_cause(error)
        msg = f"{place}: the permissions on topic {topic} cannot be read ({cause}): see to the --kafka-option values"
        raise ConfigurationError(msg) from error
    if allowed is not None and "WRITE" not in allowed:
        operations = ", ".join(sorted(allowed)) or "nothing"
        msg = (
            f"{place} does not let this job write to {topic} (it allows {operations}): "
            "add the permission Write on that topic for the job's user"
        )
        raise ConfigurationError(msg)


def _allowed_operations(spark: SparkSession, brokers: Brokers, topic: str) -> set[str] | None:
    """The operations by Kafka's names, such as READ; None where the brokers are too old to tell them."""
    with topic_admin(spark, brokers) as (admin, kafka):
        options = kafka.clients.admin.DescribeTopicsOptions().includeAuthorizedOperations(True)
        names = jvm_of(spark).java.util.ArrayList()
        names.add(topic)
        described = admin.describeTopics(names, options).allTopicNames().get().get(topic)
        operations = described.authorizedOperations()
        return None if operations is None else {str(operation.toString()) for operation in operations}
