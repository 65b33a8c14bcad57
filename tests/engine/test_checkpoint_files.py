"""Which of Spark's managers of checkpoint files a session has when a location is a URI."""

from types import SimpleNamespace

import pytest

from sessionization.spark.engine.session import KEEPS_FILES, REPLACES_FILES, replaced_checkpoint_files

_SETTING = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.mark.parametrize(
    ("before", "after"),
    [(KEEPS_FILES, REPLACES_FILES), ("org.example.Abortable", "org.example.Abortable"), (None, None)],
)
def test_only_the_manager_that_keeps_older_files_is_replaced(before: str | None, after: str | None) -> None:
    found = {} if before is None else {_SETTING: before}
    conf = SimpleNamespace(get=found.get, set=found.__setitem__)
    with replaced_checkpoint_files(SimpleNamespace(conf=conf)):
        assert found.get(_SETTING) == after
    assert found.get(_SETTING) == before, "the session may be the caller's"
