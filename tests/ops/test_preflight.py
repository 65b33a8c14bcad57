"""The preflight says of each thing that the job needs whether it is there, and leaves nothing behind."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import HadoopPath
from sessionization.ops import preflight as module
from sessionization.ops import storage_checks, trial_query
from sessionization.ops.check_list import Limit
from sessionization.ops.table_checks import NAME
from sessionization.spark.input import kafka_source
from sessionization.spark.tables.location import TableLocation
from tests.support.failing import failing_with
from tests.support.preflight_run import checkpoint_of, run, settings

pytestmark = pytest.mark.spark

CHECKS = ["engine", "storage", "lock", "input", "tables", "checkpoint", "stream", "MLflow"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a job would find its input, and an empty folder for its checkpoint."""
    (tmp_path / "input" / "pc_sessions").mkdir(parents=True)
    (tmp_path / "input" / "pc_sessions" / "1.json").write_text("{}\n")
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


not_implemented = failing_with(errno.ENOSYS)


def test_all_is_well_and_nothing_is_left_behind_even_of_a_preflight_that_was_killed(
    spark: SparkSession, folder: Path
) -> None:
    (folder / "checkpoints" / NAME / "sessionize").mkdir(parents=True)
    (folder / "warehouse" / NAME / "_delta_log").mkdir(parents=True)
    checkpoint_of(settings(folder))
    found = run(settings(folder))
    assert list(found) == CHECKS
    assert failures(found) == {}
    assert found["lock"][1] == "a second job is refused"
    assert found["input"][1] == "pc_sessions has 1 files; console_sessions is missing so far"
    assert found["stream"][1].endswith("the state has the live session")
    assert sorted(file.name for file in folder.rglob("*") if file.is_file()) == ["1.json", "layout.json"]
    assert not (folder / "checkpoints" / NAME).exists()
    assert not (folder / "warehouse" / NAME).exists()


@pytest.mark.usefixtures("without_tables")
def test_checkpoints_that_cannot_be_written_are_named(spark: SparkSession, folder: Path) -> None:
    found = failures(run(settings(folder, checkpoints=folder / "input" / "pc_sessions" / "1.json")))
    assert list(found) == ["storage", "lock", "stream"]
    assert "1.json" in found["storage"]
    assert found["storage"].endswith("(Not a directory): see to its space and its rights")


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
def test_an_input_that_does_not_exist_is_named(folder: Path) -> None:
    found = failures(run(settings(folder, input=folder / "nowhere")))
    assert found["input"].startswith(f"--input {folder}/nowhere cannot be read (No such file or directory): create it")
    assert list(found) == ["input"]


@pytest.mark.usefixtures("without_stream")
def test_tables_that_cannot_be_written_are_named(folder: Path) -> None:
    found = failures(run(settings(folder, warehouse=folder / "input" / "pc_sessions" / "1.json")))
    assert list(found) == ["tables"]
    assert "1.json" in found["tables"]


@pytest.mark.usefixtures("without_stream", "without_tables")
def test_brokers_that_do_not_answer_are_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "_ANSWER_WITHIN_MS", 1_000)
    found = failures(run(settings(folder, source="kafka", bootstrap_servers="127.0.0.1:9")))
    assert list(found) == ["topics"]
    assert found["topics"].startswith("--bootstrap-servers 127.0.0.1:9 does not answer within")


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
def test_a_timer_that_never_fires_is_a_failure(
    spark: SparkSession,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial_query, "_HEARTBEAT_MS", 3_600_000)
    monkeypatch.setattr(trial_query, "_BEATS_WITHIN_S", 1)
    found = failures(run(settings(folder)))
    assert found == {
        "stream": "the trial query failed (no heartbeat within 1 s): fix the cause; without a heartbeat free some cores"
    }


def test_storage_without_locks_is_no_failure_and_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fcntl.flock", not_implemented)
    assert storage_checks.check_lock(folder / "checkpoints").startswith("this storage has no locks: ")


def test_storage_that_cannot_rename_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "replace", not_implemented)
    with pytest.raises(OSError, match="Function not implemented"):
        storage_checks.check_storage(folder / "checkpoints" / "preflight")


def test_a_listing_that_comes_late_is_waited_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listings = iter(([], [folder / "file"]))
    monkeypatch.setattr(Path, "iterdir", lambda _: iter(next(listings)))
    assert "listed in" in storage_checks.check_storage(folder / "checkpoints" / "preflight")


def test_storage_that_reads_what_was_there_before_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_options: "1" + "x" * storage_checks._BYTES)
    with pytest.raises(ConfigurationError, match="does not hold what was just written"):
        storage_checks.check_storage(folder / "checkpoints" / "preflight")


@pytest.mark.parametrize(("limit", "files"), [(2, "more than 2 files"), (3, "3 files")])
def test_an_input_at_a_uri_is_counted_up_to_a_limit(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, limit: int, files: str
) -> None:
    monkeypatch.setattr(storage_checks, "_MOST_AT_A_URI", limit)
    for name in ("2.json", "3.json"):
        (folder / "input" / "pc_sessions" / name).touch()
    place = HadoopPath(f"file:{folder}/input")
    assert storage_checks.check_input(place) == f"pc_sessions has {files}; console_sessions is missing so far"


@pytest.mark.parametrize(
    ("experiment", "message"), [("auto", None), ("games", "--mlflow games: MLflow is not installed")]
)
def test_mlflow_must_be_installed_only_where_an_experiment_is_named(
    monkeypatch: pytest.MonkeyPatch, experiment: str, message: str | None
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    if message is None:
        assert module._check_mlflow(experiment) == "not installed, so no run is stored"
    else:
        with pytest.raises(ConfigurationError, match=message):
            module._check_mlflow(experiment)


@pytest.mark.usefixtures("without_stream", "without_tables")
def test_a_storage_that_does_not_answer_is_named_and_the_other_checks_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over = threading.Event()
    monkeypatch.setattr(module, "_STORAGE", Limit(0.5, "see whether its mount is alive"))
    monkeypatch.setattr(module, "check_storage", lambda _: is_over.wait())
    found = run(settings(folder))
    is_over.set()
    assert failures(found) == {"storage": "no answer within 0.5 s: see whether its mount is alive"}
    assert list(found) == CHECKS
