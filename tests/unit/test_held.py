"""What a job that changes the tables needs before it begins, and what it leaves as it was where that is not there."""

from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.ops.held import tables_held
from sessionization.ops.settings import EraseSettings, MaintainSettings
from sessionization.spark.tables import TABLES


def said_to_nobody(line: str) -> None:
    raise AssertionError(line)


@pytest.mark.parametrize("settings", [MaintainSettings, EraseSettings])
def test_a_folder_that_is_no_checkpoint_is_refused_and_left_as_it_is(
    tmp_path: Path, settings: type[MaintainSettings | EraseSettings]
) -> None:
    (tmp_path / "another").mkdir()
    for name in ("another", "none"):
        given = settings(warehouse=tmp_path / "warehouse", checkpoints=tmp_path / name)
        refused = pytest.raises(CheckpointError, match=f"--checkpoints .*/{name} holds no layout.json: give the folder")
        with refused, tables_held(given, TABLES, said_to_nobody):
            pytest.fail("no checkpoint")
    assert [path.name for path in tmp_path.rglob("*")] == ["another"]
