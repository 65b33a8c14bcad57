"""What a job that changes the tables needs before it begins, and what it leaves as it was where that is not there."""

import threading
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError
from sessionization.ops.held import tables_held
from sessionization.ops.settings import EraseSettings, LandChangesSettings, MaintainSettings
from sessionization.spark import landing
from sessionization.spark.table_home import TableHome
from sessionization.spark.tables import TABLES
from tests.adapter.test_checkpoint import reopened


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


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    (tmp_path / "warehouse/session_changes/_delta_log").mkdir(parents=True)
    return tmp_path / "warehouse"


def refused_at_once() -> threading.Event:
    """A stop that is set: whoever would have to wait gives up."""
    stop = threading.Event()
    stop.set()
    return stop


@pytest.mark.parametrize("settings", [MaintainSettings, EraseSettings])
def test_who_changes_folders_waits_for_who_lands_changes(
    tmp_path: Path, warehouse: Path, settings: type[MaintainSettings | EraseSettings]
) -> None:
    reopened(tmp_path / "checkpoints")
    given = settings(warehouse=warehouse, checkpoints=tmp_path / "checkpoints")
    said: list[str] = []
    waits = pytest.raises(StoppedError, match="stopped while waiting for process")
    with TableHome(warehouse).held(said_to_nobody), waits, tables_held(given, TABLES, said.append, refused_at_once()):
        pytest.fail("two jobs at once")
    assert said[0].endswith(f"which still uses --warehouse {warehouse}")


def test_who_lands_changes_waits_for_who_changes_folders(tmp_path: Path, warehouse: Path) -> None:
    settings = LandChangesSettings(bootstrap_servers="none:1", warehouse=warehouse, checkpoints=tmp_path / "landing")
    said: list[str] = []
    with TableHome(warehouse).held(said_to_nobody), pytest.raises(StoppedError, match="stopped while waiting"):
        landing.land(settings, said.append, refused_at_once())
    assert said[0].endswith(f"which still uses --warehouse {warehouse}")


def test_who_lands_changes_is_refused_where_no_tables_are_yet(tmp_path: Path) -> None:
    """A sessionize job that begins at the same moment would make them while they are held by nobody."""
    warehouse = tmp_path / "warehouse"
    settings = LandChangesSettings(bootstrap_servers="none:1", warehouse=warehouse, checkpoints=tmp_path / "landing")
    with pytest.raises(ConfigurationError, match=f"{warehouse} does not hold session_changes: give the home"):
        landing.land(settings, said_to_nobody, refused_at_once())
    assert list(tmp_path.iterdir()) == []


def test_who_lands_changes_is_refused_with_another_topic_than_before(tmp_path: Path, warehouse: Path) -> None:
    """What it had not taken of that one would never be landed."""
    checkpoints = tmp_path / "landing"
    settings = LandChangesSettings(
        bootstrap_servers="none:1", output_topic="b", warehouse=warehouse, checkpoints=checkpoints
    )
    offsets = checkpoints / "land_changes/offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text('v1\n{"batchTimestampMs":1}\n{"a":{"0":5}}')
    with pytest.raises(
        CheckpointError, match=f"{checkpoints} was begun with --output-topic a, not b: give the same again"
    ):
        landing.land(settings, said_to_nobody, refused_at_once())
    (offsets / "0").write_text('v1\n{"batchTimestampMs":1}\n{"b":{"0":5}}')
    with TableHome(warehouse).held(said_to_nobody), pytest.raises(StoppedError, match="stopped while waiting"):
        landing.land(settings, lambda _: None, refused_at_once())


def test_what_is_locked_is_hidden_from_readers_and_only_where_tables_are(tmp_path: Path, warehouse: Path) -> None:
    for home in (TableHome(tmp_path / "none"), TableHome(tmp_path), TableHome(catalog="main", schema="games")):
        with home.held(said_to_nobody), home.held(said_to_nobody):
            pass
    with TableHome(warehouse).held(said_to_nobody):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"warehouse"}
    assert {path.name for path in warehouse.iterdir()} == {"session_changes", "_lock"}
