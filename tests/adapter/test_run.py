"""What the job watches beside its queries."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from sessionization.errors import ConfigurationError, StoppedError, StreamError
from sessionization.spark.run import _unless_stopped, _vanished_streams
from sessionization.spark.supervise import _has_caught_up, engine_alive


def test_a_stream_folder_that_was_there_and_is_gone_is_told(tmp_path: Path) -> None:
    warning = _vanished_streams(tmp_path)
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
        with pytest.raises(told), engine_alive(tmp_path / "engine.log"):
            raise ConfigurationError
        engine.kill()


def test_a_stop_while_starting_is_no_failure_even_if_something_is_wrong() -> None:
    stop = threading.Event()
    with pytest.raises(ConfigurationError), _unless_stopped(stop):
        raise ConfigurationError
    stop.set()
    with pytest.raises(StoppedError) as told, _unless_stopped(stop):
        raise ConfigurationError
    assert told.value.exit_code == 0


@pytest.mark.parametrize(("takes_s", "in_time"), [(0, True), (10, False)])
def test_a_query_that_cannot_catch_up_in_time_is_not_waited_for(takes_s: float, in_time: bool) -> None:  # noqa: FBT001
    done = threading.Event()
    query = SimpleNamespace(isActive=True, processAllAvailable=lambda: done.wait(takes_s))
    assert _has_caught_up(query, within_s=0.2) is in_time
    done.set()
