"""One local Spark session for the tier."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sessionization.local.session import SHORT_LIVED_JVM, local_session
from sessionization.spark import session as sessions
from sessionization.spark.session import STREAM_CONF


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM)
    conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    session = local_session(tmp_path_factory.mktemp("spark") / "engine.log", STREAM_CONF | conf)
    with pytest.MonkeyPatch.context() as patch:
        # A job that a test calls goes on with it as it is, and leaves it running.
        patch.setattr(sessions, "spark_session", lambda _log: session)
        yield session
    session.stop()
