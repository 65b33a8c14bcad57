"""What a job that changes the tables needs before it begins, and what it leaves as it was where that is not there."""

import threading
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError
from sessionization.job import shutdown
from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.ops import land_changes
from sessionization.ops.exclusive_tables import open_tables_exclusively
from sessionization.ops.maintenance_settings import EraseSettings, LandChangesSettings, MaintainSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES
from tests.adapter.test_checkpoint import reopened
from tests.unit.begun import begun_and_done


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
        with refused, open_tables_exclusively(given, TABLES, said_to_nobody):
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
    with (
        TableLocation(warehouse).lock_for_maintenance(said_to_nobody),
        waits,
        open_tables_exclusively(given, TABLES, said.append, refused_at_once()),
    ):
        pytest.fail("two jobs at once")
    assert said[0].endswith(f"which still uses --warehouse {warehouse}")


@pytest.mark.parametrize("settings", [MaintainSettings, EraseSettings])
def test_who_changes_folders_waits_for_a_stream_with_another_checkpoint(
    tmp_path: Path, warehouse: Path, settings: type[MaintainSettings | EraseSettings]
) -> None:
    """A warm start may have taken the tables over from the checkpoint that is given."""
    reopened(tmp_path / "checkpoints")
    given = settings(warehouse=warehouse, checkpoints=tmp_path / "checkpoints")
    waits = pytest.raises(StoppedError, match="stopped while waiting for process")
    with TableLocation(warehouse).lock_for_stream(said_to_nobody):
        with waits, open_tables_exclusively(given, TABLES, lambda _: None, refused_at_once()):
            pytest.fail("two jobs at once")
        with TableLocation(warehouse).lock_for_maintenance(said_to_nobody):  # a landing goes on
            pass


def test_one_stream_writes_the_tables_whatever_its_checkpoint(tmp_path: Path, warehouse: Path) -> None:
    """One that has hung would go on after a warm start has taken the tables over."""
    (tmp_path / "in").mkdir()
    settings = SessionizeSettings(input=tmp_path / "in", warehouse=warehouse, checkpoints=tmp_path / "new")
    said: list[str] = []
    waits = pytest.raises(StoppedError, match="stopped while waiting for process")
    with TableLocation(warehouse).lock_for_stream(said_to_nobody), waits:
        run(settings, refused_at_once(), JobCallbacks(said.append))
    assert said[0].endswith(f"which still uses --warehouse {warehouse}")
    assert not (tmp_path / "new/layout.json").exists()


def test_a_landing_is_stopped_between_two_micro_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has appended and not committed it would append again after an account was erased."""
    query = Busy(done_after=3)
    monkeypatch.setattr(shutdown, "last_engine_progress", lambda _: query.progress())
    land_changes.wait_and_stop(query, tmp_path, refused_at_once(), None, said_to_nobody)
    assert query.stopped_at == 3


def test_a_landing_that_takes_too_long_is_cut_off_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Busy(done_after=10**9)
    begun_and_done(tmp_path, begun=7, done=6)
    monkeypatch.setattr(shutdown, "last_engine_progress", lambda _: query.progress())
    monkeypatch.setattr(land_changes, "REST_WITHIN_S", 0)
    said: list[str] = []
    land_changes.wait_and_stop(query, tmp_path, refused_at_once(), None, said.append)
    assert said == ["the query is cut off within a micro-batch, which the next start repeats"]


class Busy:
    """A query within a micro-batch, which is done when it has been asked so many times."""

    isActive = True  # noqa: N815 - PySpark's name
    stopped_at: int | None = None

    def __init__(self, done_after: int) -> None:
        self._done_after = done_after
        self._asked = 0

    @property
    def status(self) -> dict[str, bool]:
        return {"isTriggerActive": True}

    def progress(self) -> dict[str, int]:
        self._asked += 1
        return {"batchId": int(self._asked > self._done_after)}

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.stopped_at = self._asked - 1


def test_who_lands_changes_waits_for_who_changes_folders(tmp_path: Path, warehouse: Path) -> None:
    settings = LandChangesSettings(bootstrap_servers="none:1", warehouse=warehouse, checkpoints=tmp_path / "landing")
    said: list[str] = []
    with (
        TableLocation(warehouse).lock_for_maintenance(said_to_nobody),
        pytest.raises(StoppedError, match="stopped while waiting"),
    ):
        land_changes.land_changes(settings, said.append, refused_at_once())
    assert said[0].endswith(f"which still uses --warehouse {warehouse}")


def test_who_lands_changes_is_refused_where_no_tables_are_yet(tmp_path: Path) -> None:
    """A sessionize job that begins at the same moment would make them while they are held by nobody."""
    warehouse = tmp_path / "warehouse"
    settings = LandChangesSettings(bootstrap_servers="none:1", warehouse=warehouse, checkpoints=tmp_path / "landing")
    with pytest.raises(ConfigurationError, match=f"{warehouse} does not hold session_changes: give the location"):
        land_changes.land_changes(settings, said_to_nobody, refused_at_once())
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
        land_changes.land_changes(settings, said_to_nobody, refused_at_once())
    (offsets / "0").write_text('v1\n{"batchTimestampMs":1}\n{"b":{"0":5}}')
    with (
        TableLocation(warehouse).lock_for_maintenance(said_to_nobody),
        pytest.raises(StoppedError, match="stopped while waiting"),
    ):
        land_changes.land_changes(settings, lambda _: None, refused_at_once())


def test_what_is_locked_is_hidden_from_readers_and_only_where_tables_are(tmp_path: Path, warehouse: Path) -> None:
    for location in (
        TableLocation(tmp_path / "none"),
        TableLocation(tmp_path),
        TableLocation(catalog="main", schema="games"),
    ):
        with location.lock_for_maintenance(said_to_nobody), location.lock_for_maintenance(said_to_nobody):
            pass
    with TableLocation(warehouse).lock_for_maintenance(said_to_nobody):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {"warehouse"}
    assert {path.name for path in warehouse.iterdir()} == {"session_changes", "_lock"}
