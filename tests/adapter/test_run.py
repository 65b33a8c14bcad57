"""What the job watches beside its queries."""

import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError, StreamError
from sessionization.job import preparation
from sessionization.job.preparation import prepare, unless_stopped, watch_stream_folders
from sessionization.job.shutdown import _has_caught_up
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import open_checkpoint, read_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.engine.watchdog import explain_engine_death
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation


def test_a_stream_folder_that_was_there_and_is_gone_is_told(tmp_path: Path) -> None:
    warning = watch_stream_folders(tmp_path)
    assert warning() is None
    (tmp_path / "pc_sessions").mkdir()
    assert warning() is None
    (tmp_path / "pc_sessions").rmdir()
    assert "pc_sessions has disappeared" in str(warning())
    (tmp_path / "pc_sessions").mkdir()
    assert warning() is None


@pytest.mark.parametrize(("command", "told"), [("pass", StreamError), ("input()", ConfigurationError)])
def test_an_error_is_the_engines_death_where_its_process_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, told: type[Exception]
) -> None:
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE) as engine:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=engine))
        with pytest.raises(told), explain_engine_death(tmp_path / "engine.log"):
            raise ConfigurationError
        engine.kill()


def test_a_stop_while_starting_is_no_failure_even_if_something_is_wrong() -> None:
    stop = threading.Event()
    with pytest.raises(ConfigurationError), unless_stopped(stop):
        raise ConfigurationError
    stop.set()
    with pytest.raises(StoppedError) as told, unless_stopped(stop):
        raise ConfigurationError
    assert told.value.exit_code == 0


@pytest.mark.parametrize(("takes_s", "within_s", "in_time"), [(0, 10, True), (10, 0.2, False)])
def test_a_query_that_cannot_catch_up_in_time_is_not_waited_for(
    takes_s: float,
    within_s: float,
    in_time: bool,  # noqa: FBT001
) -> None:
    done = threading.Event()
    query = SimpleNamespace(isActive=True, processAllAvailable=lambda: done.wait(takes_s))
    assert _has_caught_up(query, within_s) is in_time
    done.set()


def test_the_layout_is_read_again_once_the_tables_are_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another start that looked at the new folder in the same moment writes its own layout before the tables are there."""
    settings = SessionizeSettings(input=tmp_path, warehouse=tmp_path / "w", checkpoints=tmp_path / "c")
    fixed = PinnedSettings.of(settings, "tables")
    ours = open_checkpoint(settings.checkpoints, fixed, settings.rules)

    def create_tables(*_args: object, **_options: object) -> None:
        (settings.checkpoints / "layout.json").unlink()
        assert open_checkpoint(settings.checkpoints, fixed, settings.rules).id != ours.id

    def raise_stopped(*_args: object) -> None:
        raise StoppedError

    monkeypatch.setattr(preparation, "create_tables", create_tables)
    monkeypatch.setattr(preparation, "ProgressLog", raise_stopped)  # what comes next
    with pytest.raises(StoppedError):
        prepare(JobContext(None, settings, ours, TableLocation(settings.warehouse)), threading.Event())
    assert open_checkpoint(settings.checkpoints, fixed, settings.rules).id == ours.id


@pytest.mark.parametrize(("sink", "is_refused"), [("kafka", True), ("tables", False)])
def test_no_query_starts_before_the_sink_is_known_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, sink: str, is_refused: bool
) -> None:
    settings = SessionizeSettings(input=tmp_path, warehouse=tmp_path / "w", checkpoints=tmp_path / "c")
    checkpoint = open_checkpoint(settings.checkpoints, PinnedSettings.of(settings, "tables"), settings.rules).with_sink(
        sink
    )
    (settings.checkpoints / "sessionize" / "offsets").mkdir(parents=True)
    (settings.checkpoints / "sessionize" / "offsets" / "0").touch()

    monkeypatch.setattr(preparation, "create_tables", lambda *_args, **_options: None)
    monkeypatch.setattr(preparation, "ProgressLog", lambda *_args: SimpleNamespace(open=lambda *_: {}))
    monkeypatch.setattr(TableLocation, "newest_appended_batch", lambda *_args: -1)
    with pytest.raises(CheckpointError) if is_refused else nullcontext():
        prepare(JobContext(None, settings, checkpoint, TableLocation(settings.warehouse)), threading.Event())


@pytest.mark.parametrize("is_refused", [True, False])
def test_the_tables_are_taken_over_last_of_all(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_refused: bool,  # noqa: FBT001
) -> None:
    """A warm start that is refused leaves them to the checkpoint that has them, and the next start may do without."""
    settings = SessionizeSettings(
        input=tmp_path, warehouse=tmp_path / "w", checkpoints=tmp_path / "c", from_sessions=True
    )
    checkpoint = open_checkpoint(settings.checkpoints, PinnedSettings.of(settings, "tables"), settings.rules, warm=True)
    (tmp_path / "w/session_changes/_delta_log").mkdir(parents=True)
    location = TableLocation(settings.warehouse)
    done: list[str] = []
    at_once = threading.Event()
    at_once.set()

    def warm_start(*_args: object) -> None:
        done.append("checked")
        if is_refused:
            raise ConfigurationError

    def take_over(*_args: object) -> None:
        done.append("taken over")
        assert read_checkpoint(settings.checkpoints).is_warm  # else a start that is cut off here would begin empty
        with pytest.raises(StoppedError, match="stopped while waiting"), location.lock_for_maintenance(print, at_once):
            pytest.fail("a landing writes meanwhile")

    monkeypatch.setattr(preparation, "refuse_missing_tables", lambda *_args: None)
    monkeypatch.setattr(preparation, "ProgressLog", lambda *_args: SimpleNamespace(open=lambda *_: {}))
    monkeypatch.setattr(TableLocation, "newest_appended_batch", lambda *_args: -1)
    monkeypatch.setattr(preparation, "warm_start", warm_start)
    monkeypatch.setattr(preparation, "take_over", take_over)
    monkeypatch.setattr(preparation, "create_tables", lambda *_args, **_options: done.append("owned"))
    with pytest.raises(ConfigurationError) if is_refused else nullcontext():
        prepare(JobContext(None, settings, checkpoint, location), threading.Event())
    with location.lock_for_maintenance(lambda _: pytest.fail("only meanwhile"), at_once):
        pass
    assert done == (["checked"] if is_refused else ["checked", "taken over", "owned"])
    assert read_checkpoint(settings.checkpoints).is_warm is not is_refused
