"""The brokers do not say of every topic whether it is compacted."""

from collections.abc import Iterator

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
from sessionization.spark.input.topic_admin import refuse_compacted_topics
from sessionization_laptop.broker import Broker
from tests.input.kafka_settings import settings

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


def test_a_topic_whose_settings_may_not_be_read_is_a_warning(spark: SparkSession, broker: Broker) -> None:
    warnings: list[str] = []
    refuse_compacted_topics(spark, settings(broker.bootstrap_servers), ("read_only", "open"), warnings.append)
    assert len(warnings) == 1
    assert warnings[0].startswith("whether read_only is compacted cannot be checked (")
    assert "TopicAuthorizationException" in warnings[0]
    assert warnings[0].endswith("or allow DescribeConfigs to the job's user")


def test_a_compacted_topic_is_refused_beside_one_that_may_not_be_read(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match=r"topic compacted has cleanup\.policy=compact"):
        refuse_compacted_topics(spark, settings(broker.bootstrap_servers), ("read_only", "compacted"), print)


def test_with_a_service_credential_no_admin_client_asks_the_brokers(spark: SparkSession) -> None:
    """It has no credential: brokers that do not answer here stand for brokers that refuse it."""
    warnings: list[str] = []
    brokers = settings("127.0.0.1:9", sink="kafka", kafka_option=("databricks.serviceCredential=msk",))
    refuse_compacted_topics(spark, brokers, ("open", "other"), warnings.append)
    assert [line.partition(",")[0] for line in warnings] == ["whether open or other is compacted is not checked"]
    assert check_output_topic(spark, brokers) == (
        "output_sessions is not checked, because only Spark's Kafka source has the service credential"
    )
