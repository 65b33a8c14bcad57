"""The preflight ends where the engine hangs: at its start, at a check, and at its end."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from sessionization.errors import ConfigurationError
from sessionization.ops import preflight as module
from sessionization.ops.check_list import CheckList, Limit
from sessionization.spark.engine import session
from sessionization.spark.tables.location import TableLocation
from tests.support.preflight_run import run, settings

SOON = Limit(0.2, "look whether it lives")
AT_A_URI = {"input": "hdfs://h/in", "warehouse": "hdfs://h/tables", "checkpoints": "hdfs://h/checkpoints"}


def refuse() -> NoReturn:
    msg = "the Spark session lacks Delta's jars"
    raise ConfigurationError(msg)


@pytest.mark.parametrize("fault", ["hangs", "fails"])
@pytest.mark.parametrize(("at_a_uri", "others"), [(AT_A_URI, []), ({}, ["storage", "lock", "input"])])
def test_an_engine_that_does_not_start_is_named_wherever_the_locations_are(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    never: threading.Event,
    fault: str,
    at_a_uri: dict[str, str],
    others: list[str],
) -> None:
    start: Callable[[], object] = never.wait if fault == "hangs" else refuse
    monkeypatch.setattr(session, "is_callers_session", lambda: True)
    monkeypatch.setattr(session, "spark_session", lambda _log, _depends_on=None: start())
    monkeypatch.setattr(module, "_ENGINE", SOON)
    (tmp_path / "input").mkdir()
    found = run(settings(tmp_path, **at_a_uri))
    cause = "no answer within 0.2 s: look whether it lives" if fault == "hangs" else "the Spark session lacks Delta's"
    assert list(found) == ["engine", *others]
    assert found["engine"] == (False, cause) if fault == "hangs" else found["engine"][1].startswith(cause)


def test_an_engine_that_does_not_stop_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, never: threading.Event
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(module, "_STOP", SOON)
    with module._stack_that_closes_in_time(lines.append) as stack:
        stack.callback(never.wait)
    assert lines == ["warning  engine: it does not stop within 0.2 s: look whether it lives"]


def test_what_tells_of_the_tables_storage_has_a_limit_too(
    monkeypatch: pytest.MonkeyPatch, never: threading.Event, tmp_path: Path
) -> None:
    location = TableLocation(tmp_path)
    monkeypatch.setattr(module, "_STORAGE", SOON)
    monkeypatch.setattr(module, "_SPARK", SOON)
    monkeypatch.setattr(module, "is_on_local_disk", lambda _folder: never.wait())
    monkeypatch.setattr(module, "single_driver_warning", lambda *_: never.wait())
    assert not module._has_locks(location)
    lines: list[str] = []
    module._warn_of_single_driver(CheckList(lines.append, location), None)  # type: ignore[arg-type]
    assert lines == []


def test_a_description_belongs_to_the_check(never: threading.Event) -> None:
    lines: list[str] = []
    CheckList(lines.append, TableLocation()).run("engine", lambda: "spark", SOON, lambda _: str(never.wait()))
    assert lines == ["FAILED   engine: no answer within 0.2 s: look whether it lives"]
