"""The preflight says of each thing that the job needs whether it is there, and leaves nothing behind."""

import errno
import json
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from sessionization.errors import ConfigurationError
from sessionization.ops import preflight as module
from sessionization.ops.preflight import NAME, check_storage, preflight
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input import kafka_source
from sessionization.spark.tables.location import TableLocation
from tests.support.failing import failing_with
from tests.support.settings import settings_of
from tests.support.wire_cases import INGESTED_MS, START

pytestmark = pytest.mark.spark

CHECKS = ["storage", "input", "tables", "lease", "stream", "messages"]


def settings(folder: Path, **given: Any) -> SessionizeSettings:
    source = {} if "bootstrap_servers" in given else {"input": folder / "input"}
    places = {"warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints"}
    return settings_of(SessionizeSettings, **{**source, **places, "mlflow": "off", **given})


def run(settings: SessionizeSettings) -> dict[str, tuple[bool, str]]:
    """By check whether it passed, and its line. The preflight fails exactly if a check does."""
    lines: list[str] = []
    failure = None
    try:
        preflight(settings, lines.append)
    except ConfigurationError as error:
        failure = str(error)
    found = {}
    for line in lines:
        verdict, _, rest = line.partition(" ")
        name, _, text = rest.strip().partition(": ")
        if verdict in {"ok", "FAILED"}:
            found[name] = (verdict == "ok", text)
    failed = [name for name, (is_ok, _) in found.items() if not is_ok]
    assert failure == (
        f"{', '.join(failed)} failed: do what the lines above say, and run this again" if failed else None
    )
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a job would find its input, and an empty folder for its checkpoint."""
    (tmp_path / "input" / "pc_sessions").mkdir(parents=True)
    file = tmp_path / "input" / "pc_sessions" / "1.json"
    file.write_text(json.dumps(START) + "\n")
    os.utime(file, ns=(INGESTED_MS * 1_000_000,) * 2)
    (tmp_path / "input" / "pc_sessions" / "a.csv").touch()
    (tmp_path / "checkpoints").mkdir()
    return tmp_path


def failures(found: dict[str, tuple[bool, str]]) -> dict[str, str]:
    return {name: text for name, (is_ok, text) in found.items() if not is_ok}


@pytest.fixture
def without_stream(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the trial query, which takes longest."""
    monkeypatch.setattr(module, "check_trial_query", lambda *_: "not tried")


@pytest.fixture
def without_tables(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out the trial table."""
    monkeypatch.setattr(module, "check_tables", lambda *_: "not tried")


def test_all_is_well_and_nothing_is_left_behind_even_of_a_preflight_that_was_killed(
    spark: SparkSession, folder: Path
) -> None:
    (folder / "checkpoints" / NAME / "sessionize").mkdir(parents=True)
    (folder / "warehouse" / NAME / "_delta_log").mkdir(parents=True)
    found = run(settings(folder))
    assert list(found) == CHECKS
    assert failures(found) == {}
    assert found["lease"][1].startswith("not needed")
    assert re.match("pc_sessions has 1 files; 1 entries of .*: a.csv; console_sessions is missing", found["input"][1])
    assert "the state has the live session" in found["stream"][1]
    assert {file.name for file in folder.rglob("*") if file.is_file()} == {"1.json", "a.csv"}
    assert not (folder / "checkpoints" / NAME).exists()
    assert not (folder / "warehouse" / NAME).exists()


@pytest.mark.usefixtures("without_tables")
def test_checkpoints_that_cannot_be_written_are_named(folder: Path) -> None:
    found = failures(run(settings(folder, checkpoints=folder / "input" / "pc_sessions" / "1.json")))
    assert list(found) == ["storage", "stream"]
    assert "1.json" in found["storage"]
    assert "(Not a directory)" in found["storage"]


@pytest.mark.usefixtures("without_stream", "without_tables")
def test_the_volume_of_a_clusters_logs_is_tried_and_a_right_that_is_missing_is_a_warning(
    spark: SparkSession, folder: Path
) -> None:
    for volume, is_writable in (
        (folder / "Volumes" / "logs", True),
        (folder / "input/pc_sessions/1.json/Volumes/x", False),
    ):
        spark.conf.set(module._LOG_DESTINATION, f"dbfs:{volume}")
        lines: list[str] = []
        try:
            module.preflight(settings(folder), lines.append)
        finally:
            spark.conf.unset(module._LOG_DESTINATION)
        [line] = [line for line in lines if " logs: " in line]
        assert line.startswith("ok" if is_writable else "warning")
    assert list((folder / "Volumes" / "logs").iterdir()) == []


@pytest.mark.usefixtures("without_stream", "without_tables")
@pytest.mark.parametrize(
    ("given", "check", "words"),
    [
        ({"input": Path("/nowhere")}, "input", "--input /nowhere cannot be read (No such file or directory)"),
        (
            {"source": "kafka", "bootstrap_servers": "127.0.0.1:9"},
            "topics",
            "--bootstrap-servers 127.0.0.1:9 does not answer within",
        ),
    ],
)
def test_an_input_that_is_not_there_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], check: str, words: str
) -> None:
    monkeypatch.setattr(kafka_source, "_ANSWER_WITHIN_MS", 1_000)
    found = failures(run(settings(folder, **given)))
    assert list(found) == [check]
    assert found[check].startswith(words)


@pytest.mark.usefixtures("without_stream")
def test_a_delta_that_ignores_transaction_ids_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = TableLocation.append

    def without_options(self: TableLocation, rows: DataFrame, table: Any, **_: str) -> None:
        append(self, rows, table)

    monkeypatch.setattr(TableLocation, "append", without_options)
    found = failures(run(settings(folder)))
    assert list(found) == ["tables"]
    assert found["tables"].startswith("a micro-batch that was appended twice left 2 rows")


@pytest.mark.usefixtures("without_tables")
def test_a_timer_that_never_fires_is_a_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HEARTBEAT_MS", 3_600_000)
    monkeypatch.setattr(module, "_BEATS_WITHIN_S", 1)
    found = failures(run(settings(folder)))
    assert list(found) == ["stream"]
    assert "no heartbeat within 1 s" in found["stream"]


@pytest.mark.usefixtures("without_stream", "without_tables")
def test_a_check_that_hangs_is_named_and_the_other_checks_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(module, "_WITHIN_S", 1.0)
    monkeypatch.setattr(module, "check_storage", lambda _: is_over.wait())
    found = run(settings(folder))
    is_over.set()
    assert list(found) == CHECKS
    assert list(failures(found)) == ["storage"]
    assert found["storage"][1].startswith("no answer within 1 s")


def test_storage_that_cannot_rename_or_reads_what_was_there_before_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", failing_with(errno.ENOSYS))
        with pytest.raises(OSError, match="Function not implemented"):
            check_storage(folder / "checkpoints" / "preflight")
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_options: "1" + "x" * module._BYTES)
    with pytest.raises(ConfigurationError, match="does not hold what was just written"):
        check_storage(folder / "checkpoints" / "preflight")


def refuse() -> NoReturn:
    msg = "[INSUFFICIENT_PERMISSIONS] Insufficient privileges:\nUser does not have USE CATALOG on Catalog 'games'."
    raise AnalysisException(msg)


def refuse_volume() -> NoReturn:
    raise PermissionError(errno.EACCES, "Permission denied", "/Volumes/games/live/checkpoints/x")


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (refuse, "User does not have USE CATALOG on Catalog 'games'"),
        (refuse_volume, "/Volumes/games/live/checkpoints/x cannot be used (Permission denied)"),
    ],
)
def test_a_missing_privilege_is_named(check: Callable[[], str], words: str) -> None:
    lines: list[str] = []
    assert not module._passes("tables", check, lines.append)
    assert words in lines[0]
