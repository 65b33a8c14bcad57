"""The brokers say which topics are compacted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.ops.preflight import check_output_topic
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input.topic_admin import refuse_compacted_topics
from sessionization_laptop.broker import Broker
from tests.support.settings import settings_of

pytestmark = pytest.mark.spark

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("broker"), AUTHORIZER) as broker:
        broker.create_topics({"open": 1, "read_only": 1})
        broker.create_topics({"compacted": 1}, cleanup_policy="compact")
        broker.create_topics({"both": 1}, cleanup_policy="compact,delete")
        allowed = (AclOperation.READ, AclOperation.DESCRIBE)
        acls = [
            AclBinding(
                ResourceType.TOPIC, "read_only", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*", operation,
                AclPermissionType.ALLOW,
            )
            for operation in allowed
        ]  # fmt: skip
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for future in admin.create_acls(acls).values():
            future.result(20)
        yield broker


def settings(servers: str, **options: object) -> SessionizeSettings:
    places = {"warehouse": Path("w"), "checkpoints": Path("c")}
    given = {"source": "kafka", "sink": "kafka", "bootstrap_servers": servers, **places, **options}
    return settings_of(SessionizeSettings, given)


@pytest.mark.parametrize(("topic", "policy"), [("compacted", "compact"), ("both", "compact,delete")])
def test_a_compacted_topic_is_refused_or_for_a_running_stream_warned_of(
    spark: SparkSession, broker: Broker, topic: str, policy: str
) -> None:
    warnings: list[str] = []
    brokers = settings(broker.bootstrap_servers)
    with pytest.raises(ConfigurationError) as refused:
        refuse_compacted_topics(spark, brokers, ("open", topic), warnings.append)
    assert str(refused.value).startswith(f"topic {topic} has cleanup.policy={policy}: the brokers delete a message")
    assert warnings == []
    refuse_compacted_topics(spark, brokers, ("open", topic), warnings.append, is_new=False)
    assert warnings == [str(refused.value)]


def test_topics_whose_settings_may_not_be_read_are_one_warning(spark: SparkSession, broker: Broker) -> None:
    warnings: list[str] = []
    refuse_compacted_topics(spark, settings(broker.bootstrap_servers), ("read_only", "open"), warnings.append)
    assert len(warnings) == 1
    assert warnings[0].startswith("whether read_only or open is compacted cannot be checked (")
    assert "TopicAuthorizationException" in warnings[0]
    assert warnings[0].endswith("or allow DescribeConfigs to the job's user")


def test_with_a_service_credential_no_admin_client_asks_the_brokers(spark: SparkSession) -> None:
    """It has no credential: brokers that do not answer here stand for brokers that refuse it."""
    warnings: list[str] = []
    brokers = settings("127.0.0.1:9", kafka_option=("databricks.serviceCredential=msk",))
    refuse_compacted_topics(spark, brokers, ("open", "other"), warnings.append)
    assert [line.partition(",")[0] for line in warnings] == ["whether open or other is compacted is not checked"]
    assert check_output_topic(spark, brokers) == (
        "output_sessions is not checked, because only Spark's Kafka source has the service credential"
    )
