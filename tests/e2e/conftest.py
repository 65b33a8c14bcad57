"""A Spark session of the tests' own, to read tables and state with once a job has ended."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from sessionization.spark.session import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    shared = SparkSession.getActiveSession()
    session = spark_session(tmp_path_factory.mktemp("spark") / "engine.log")
    yield session
    if session is not shared:
        session.stop()
