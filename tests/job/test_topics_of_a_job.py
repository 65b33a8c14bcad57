"""What a job says of its topics: that they are compacted, or that one is gone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from pyspark.sql import SparkSession

from sessionization.errors import SessionizationError
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.spark_logs import newest_committed_batch
from sessionization_laptop.broker import Broker
from tests.support.default_streams import STREAMS
from tests.support.in_process import RunningJob, job_running
from tests.support.settings import settings_of
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.spark


def test_a_new_job_refuses_a_compacted_topic_a_later_start_warns_and_a_deleted_topic_ends_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Broker(tmp_path / "broker") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        broker.create_topics(dict.fromkeys(STREAMS, 1), cleanup_policy="compact")
        settings = settings_of(SessionizeSettings,
            source="kafka", bootstrap_servers=broker.bootstrap_servers, mlflow="off",
            warehouse=tmp_path / "warehouse", checkpoints=tmp_path / "checkpoints",
        )  # fmt: skip
        assert error_of(settings).startswith("topic pc_sessions has cleanup.policy=compact: the brokers delete")
        assert not (tmp_path / "warehouse" / "session_changes").exists()

        for topic in STREAMS:
            set_cleanup_policy(admin, topic, "delete")
        with job_running(settings) as job:
            wait_for_micro_batch(settings, job)
            (tmp_path / "checkpoints" / "stop").touch()
            job.future.result(DEADLINE_S)
        assert job.lines.count(f"stopping, because there is a file {tmp_path / 'checkpoints' / 'stop'}") == 1
        assert [line for line in job.lines if "cleanup.policy" in line] == []

        def delete_topic(job: RunningJob) -> None:
            wait_for_micro_batch(settings, job)
            said = "topic pc_sessions has cleanup.policy=compact,delete:"
            assert [line for line in job.lines if line.startswith(said)]
            admin.delete_topics(["console_sessions"])["console_sessions"].result(20)
            wait_for_end(job)

        set_cleanup_policy(admin, "pc_sessions", "compact,delete")
        assert "query" in error_of(settings, delete_topic)
        assert "has no topic console_sessions now: if it was there before, start" in error_of(settings)


def wait_for_end(job: RunningJob) -> None:
    job.wait_for(lambda: False, "its end")


def error_of(settings: SessionizeSettings, act: Callable[[RunningJob], None] = wait_for_end) -> str:
    """The error with which the job ends."""
    with pytest.raises(SessionizationError) as error, job_running(settings) as job:
        act(job)
    return str(error.value)


def wait_for_micro_batch(settings: SessionizeSettings, job: RunningJob) -> None:
    query = settings.state.checkpoints / "sessionize"
    committed = newest_committed_batch(query)
    job.wait_for(lambda: newest_committed_batch(query) > committed, "a micro-batch")


def set_cleanup_policy(admin: AdminClient, topic: str, policy: str) -> None:
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)
