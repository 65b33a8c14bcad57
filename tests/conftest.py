"""One local Spark session for all tiers that run in one pytest process."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A session with two cores and two shuffle partitions; a job that a test calls in this process runs in it too."""
    # The tiers without Spark import neither PySpark nor these.
    from sessionization.local.session import SHORT_LIVED_JVM, local_session
    from sessionization.spark import session as sessions

    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM)
    conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    session = local_session(tmp_path_factory.mktemp("spark") / "engine.log", sessions.STREAM_CONF | conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "spark_session", lambda _log: session)
        yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that share fixtures to one process of pytest-xdist: those of a file, and all that need the demo's tables."""
    for item in items:
        needs_demo = "demo" in getattr(item, "fixturenames", ())
        item.add_marker(pytest.mark.xdist_group("demo" if needs_demo else str(item.path)))
