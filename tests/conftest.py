"""One local Spark session for all tests of a pytest process."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.register_assert_rewrite("tests.support")  # so that what fails shows what differs


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Yields a session with two cores and two shuffle partitions; jobs called in this process run in it too."""
    # Imported here, since the tests without Spark must not import PySpark.
    from sessionization.spark.engine import session as session_module
    from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS, local_session

    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
    conf = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    session = local_session(tmp_path_factory.mktemp("spark") / "engine.log", session_module.OPEN_SOURCE_CONF | conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_module, "spark_session", lambda _log, _depends_on=None: session)
        yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run whole jobs first: they take longest, and short tests fill the time of a process that is free at the end."""
    items.sort(key=lambda item: item.get_closest_marker("job") is None)


class ByFile(LoadFileScheduling):
    """Gives all tests of a file to one pytest-xdist process, so that each fixture is made once.

    All notebook tests go to one process, since they share the demo's tables. (`--dist loadgroup` of pytest-xdist 3.8
    has no effect with pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "notebooks" if file.startswith("tests/notebooks/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    return ByFile(config, log)
