"""One local Spark session for all tests of a pytest process."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run whole jobs first: they take longest, and short tests fill the time of a process that is free at the end.

    All tests of a file go to one pytest-xdist process; so do all of the notebooks, which share the demo's tables.
    It comes first, because pytest-xdist reads the groups in the same hook.
    """
    items.sort(key=lambda item: item.get_closest_marker("job") is None)
    for item in items:
        is_of_notebooks = item.path.parent.name == "notebooks"
        item.add_marker(pytest.mark.xdist_group(item.path.parent.name if is_of_notebooks else str(item.path)))
