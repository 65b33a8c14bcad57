"""Jobs that change the tables wait for one another, and are refused without a checkpoint or tables."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError
from sessionization.job.sessionize_job import run
from sessionization.ops import land_changes
from sessionization.ops.exclusive_tables import open_tables_exclusively
from sessionization.ops.maintenance_settings import EraseSettings, LandChangesSettings, MaintainSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES
from tests.support.checkpoint_folder import reopened
from tests.support.settings import settings_of
from tests.support.waiting import expect_no_line


@pytest.mark.parametrize("settings_type", [MaintainSettings, EraseSettings])
def test_a_folder_that_is_no_checkpoint_is_refused_and_not_changed(
    tmp_path: Path, settings_type: type[MaintainSettings | EraseSettings]
) -> None:
    (tmp_path / "another").mkdir()
    for name in ("another", "none"):
        settings = settings_of(settings_type, warehouse=tmp_path / "warehouse", checkpoints=tmp_path / name)
        refused = pytest.raises(CheckpointError, match=f"--checkpoints .*/{name} holds no layout.json: give the folder")
        with refused, open_tables_exclusively(settings, TABLES, expect_no_line):
            pytest.fail("no checkpoint")
    assert [path.name for path in tmp_path.rglob("*")] == ["another"]


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    (tmp_path / "warehouse/session_changes/_delta_log").mkdir(parents=True)
    return tmp_path / "warehouse"


def stop_that_is_set() -> threading.Event:
    """Returns a stop that is set: a job that would have to wait gives up."""
    stop = threading.Event()
    stop.set()
    return stop


@pytest.mark.parametrize("settings_type", [MaintainSettings, EraseSettings])
@pytest.mark.parametrize("lock", [TableLocation.lock_for_maintenance, TableLocation.lock_for_stream])
def test_maintenance_and_erasure_wait_for_a_landing_job_and_for_a_stream_with_another_checkpoint(
    tmp_path: Path, warehouse: Path, settings_type: type[MaintainSettings | EraseSettings], lock: Callable
) -> None:
    """A warm start may have moved the tables to another checkpoint than the given one."""
    reopened(tmp_path / "checkpoints")
    settings = settings_of(settings_type, warehouse=warehouse, checkpoints=tmp_path / "checkpoints")
    lines: list[str] = []
    stopped = pytest.raises(StoppedError, match="stopped while waiting for process")
    with (
        lock(TableLocation(warehouse), expect_no_line),
        stopped,
        open_tables_exclusively(settings, TABLES, lines.append, stop_that_is_set()),
    ):
        pytest.fail("two jobs at once")
    assert lines[0].endswith(f"which still uses --warehouse {warehouse}")


def test_a_landing_job_runs_beside_a_stream(warehouse: Path) -> None:
    location = TableLocation(warehouse)
    with location.lock_for_stream(expect_no_line), location.lock_for_maintenance(expect_no_line):
        pass


def test_only_one_stream_writes_the_tables_whatever_its_checkpoint(tmp_path: Path, warehouse: Path) -> None:
    """A hung stream would go on writing after a warm start with its tables."""
    (tmp_path / "in").mkdir()
    settings = settings_of(SessionizeSettings, input=tmp_path / "in", warehouse=warehouse, checkpoints=tmp_path / "new")
    lines: list[str] = []
    stopped = pytest.raises(StoppedError, match="stopped while waiting for process")
    with TableLocation(warehouse).lock_for_stream(expect_no_line), stopped:
        run(settings, stop_that_is_set(), lines.append)
    assert lines[0].endswith(f"which still uses --warehouse {warehouse}")
    assert not (tmp_path / "new/layout.json").exists()


def test_a_landing_job_waits_for_maintenance(tmp_path: Path, warehouse: Path) -> None:
    settings = settings_of(
        LandChangesSettings, bootstrap_servers="none:1", warehouse=warehouse, checkpoints=tmp_path / "landing"
    )
    lines: list[str] = []
    with (
        TableLocation(warehouse).lock_for_maintenance(expect_no_line),
        pytest.raises(StoppedError, match="stopped while waiting"),
    ):
        land_changes.land_changes(settings, lines.append, stop_that_is_set())
    assert lines[0].endswith(f"which still uses --warehouse {warehouse}")


def test_a_landing_job_is_refused_where_there_are_no_tables(tmp_path: Path) -> None:
    """A sessionize job that starts at the same moment would create them while no job holds their lock."""
    warehouse = tmp_path / "warehouse"
    settings = settings_of(
        LandChangesSettings, bootstrap_servers="none:1", warehouse=warehouse, checkpoints=tmp_path / "landing"
    )
    with pytest.raises(ConfigurationError, match=f"{warehouse} does not hold session_changes: give the location"):
        land_changes.land_changes(settings, expect_no_line, stop_that_is_set())
    assert list(tmp_path.iterdir()) == []


def test_the_lock_is_hidden_from_readers_and_exists_only_where_there_are_tables(
    tmp_path: Path, warehouse: Path
) -> None:
    for location in (
        TableLocation(tmp_path / "none"),
        TableLocation(tmp_path),
        TableLocation(catalog="main", schema="games"),
    ):
        with location.lock_for_maintenance(expect_no_line), location.lock_for_maintenance(expect_no_line):
            pass
    with TableLocation(warehouse).lock_for_maintenance(expect_no_line):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"warehouse"}
    assert {path.name for path in warehouse.iterdir()} == {"session_changes", "_lock"}
