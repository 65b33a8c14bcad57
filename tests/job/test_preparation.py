"""The job around its queries: warnings, errors, stops, and the order of its preparation."""

import subprocess
import sys
import threading
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from sessionization.errors import CheckpointError, ConfigurationError, StoppedError, StreamError
from sessionization.job import preparation
from sessionization.job.job_input import watch_input
from sessionization.job.preparation import prepare, unless_stopped
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import read_checkpoint
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.engine.error_text import explain_engine_death
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation
from tests.support.checkpoint_folder import begin_micro_batch
from tests.support.default_streams import STREAMS
from tests.support.settings import settings_of


def test_a_stream_folder_that_disappears_causes_a_warning(tmp_path: Path) -> None:
    lines: list[str] = []
    check = watch_input(tmp_path, STREAMS, dict, lines.append)
    check()
    (tmp_path / "pc_sessions").mkdir()
    check()
    assert lines == []
    (tmp_path / "pc_sessions").rmdir()
    check()
    assert "pc_sessions has disappeared" in lines.pop()
    (tmp_path / "pc_sessions").mkdir()
    check()
    assert lines == []


def test_what_is_not_read_is_named_once_and_again_where_it_came_back(tmp_path: Path) -> None:
    lines: list[str] = []
    archive = {"pc_sessions folder": "1 entries of pc_sessions are folders: archive"}
    other = {"pc_sessions ending": "2 entries of pc_sessions do not end with .json: a.csv"}
    unread = [archive, archive | other, archive | other, other, archive | other]
    check = watch_input(tmp_path, STREAMS, partial(next, iter(unread)), lines.append)
    for _ in unread:
        check()
    said = [*archive.values(), *other.values(), *archive.values()]
    assert lines == [f"--input {tmp_path}: {line}" for line in said]


@pytest.mark.parametrize(("command", "expected"), [("pass", StreamError), ("input()", ConfigurationError)])
def test_an_error_becomes_a_stream_error_if_the_jvm_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, expected: type[Exception]
) -> None:
    with subprocess.Popen([sys.executable, "-c", command], stdin=subprocess.PIPE) as engine:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=engine))
        with pytest.raises(expected), explain_engine_death("engine.log"):
            raise ConfigurationError
        engine.kill()


def test_a_stop_during_the_start_exits_with_code_0_even_after_an_error() -> None:
    stop = threading.Event()
    with pytest.raises(ConfigurationError), unless_stopped(stop):
        raise ConfigurationError
    stop.set()
    with pytest.raises(StoppedError) as stopped, unless_stopped(stop):
        raise ConfigurationError
    assert stopped.value.exit_code == 0


@pytest.fixture
def settings(tmp_path: Path) -> SessionizeSettings:
    return settings_of(SessionizeSettings, input=tmp_path, warehouse=tmp_path / "w", checkpoints=tmp_path / "c")


def test_a_start_gets_its_own_layout_file_back_and_a_refused_change_of_the_sink_starts_no_query(
    settings: SessionizeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another start on the same new folder writes its own layout file before the tables exist."""
    folder, rules = settings.state.checkpoints, settings.rules.of_sessions
    fixed = PinnedSettings.of(settings, "tables")
    ours = open_checkpoint(folder, fixed, rules).with_sink("kafka")

    def create_tables(*_args: object, **_options: object) -> None:
        (folder / "layout.json").unlink()
        assert open_checkpoint(folder, fixed, rules).id != ours.id

    monkeypatch.setattr(preparation, "create_tables", create_tables)
    monkeypatch.setattr(preparation, "store_heartbeat", lambda *_args: begin_micro_batch(folder, 0, 1_000))
    monkeypatch.setattr(preparation, "ProgressLog", lambda *_args: SimpleNamespace(newest={}))
    monkeypatch.setattr(preparation, "newest_appended_batch", lambda *_args: -1)
    with pytest.raises(CheckpointError, match="was created with --sink kafka and is not done"):
        prepare(JobContext(None, settings, ours, TableLocation(settings.tables.warehouse)), threading.Event())
    assert read_checkpoint(folder).id == ours.id


@pytest.mark.parametrize("is_refused", [True, False])
def test_the_tables_are_taken_over_after_all_checks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_refused: bool,  # noqa: FBT001
) -> None:
    """A refused warm start leaves the tables to their checkpoint, and the next start may omit the option."""
    settings = settings_of(
        SessionizeSettings, input=tmp_path, warehouse=tmp_path / "w", checkpoints=tmp_path / "c", from_sessions=True
    )
    checkpoint = open_checkpoint(
        settings.state.checkpoints, PinnedSettings.of(settings, "tables"), settings.rules.of_sessions, warm=True
    )
    (tmp_path / "w/session_changes/_delta_log").mkdir(parents=True)
    location = TableLocation(settings.tables.warehouse)
    steps: list[str] = []
    stop = threading.Event()
    stop.set()

    def warm_start(*_args: object) -> None:
        steps.append("checked")
        if is_refused:
            raise ConfigurationError

    def take_over(*_args: object) -> None:
        steps.append("taken over")
        assert read_checkpoint(settings.state.checkpoints).is_warm  # a start interrupted here must not begin empty
        with pytest.raises(StoppedError, match="stopped while waiting"), location.lock_for_maintenance(print, stop):
            pytest.fail("a landing writes meanwhile")

    monkeypatch.setattr(preparation, "refuse_missing_tables", lambda *_args: None)
    monkeypatch.setattr(TableLocation, "labels", lambda *_args: ())
    monkeypatch.setattr(preparation, "ProgressLog", lambda *_args: SimpleNamespace(newest={}))
    monkeypatch.setattr(preparation, "newest_appended_batch", lambda *_args: -1)
    monkeypatch.setattr(preparation, "warm_start", warm_start)
    monkeypatch.setattr(preparation, "take_over", take_over)
    monkeypatch.setattr(preparation, "create_tables", lambda *_args, **_options: steps.append("owned"))
    monkeypatch.setattr(preparation, "store_heartbeat", lambda *_args: None)
    with pytest.raises(ConfigurationError) if is_refused else nullcontext():
        prepare(JobContext(None, settings, checkpoint, location), threading.Event())
    with location.lock_for_maintenance(lambda _: pytest.fail("only meanwhile"), stop):
        pass
    assert steps == (["checked"] if is_refused else ["checked", "taken over", "owned"])
    assert read_checkpoint(settings.state.checkpoints).is_warm is not is_refused
