"""`--mode real-time`: a missing requirement is an error before any change; the engine reports the progress."""

import contextlib
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.job.sessionize_job import JobCallbacks, run
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.state_layout import StateLayout
from sessionization.spark.output.progress import BatchProgress
from sessionization.spark.output.real_time import SWITCH, check_runtime, report_engine_batches
from tests.support.monitored import AT_MS, NO_PERCENTILES, Session, engine
from tests.support.settings import settings_of
from tests.support.waiting import expect_no_line


class Cluster:
    """A stand-in for a cluster's session with its settings."""

    def __init__(self, conf: dict[str, str]) -> None:
        self.conf = conf

    def getOrCreate(self) -> "Cluster":  # noqa: N802
        return self


@pytest.mark.parametrize(
    ("runtime", "conf", "missing"),
    [
        (None, {SWITCH: "true"}, "which Databricks alone has"),
        ("19.1", {}, f"start it with {SWITCH}=true"),
        ("19.1", {SWITCH: "false"}, f"start it with {SWITCH}=true"),
        ("19.1", {SWITCH: "true"}, None),
    ],
)
def test_the_error_names_the_missing_requirement(
    monkeypatch: pytest.MonkeyPatch, runtime: str | None, conf: dict[str, str], missing: str | None
) -> None:
    set_cluster(monkeypatch, runtime, conf)
    refused = pytest.raises(ConfigurationError, match=f"^--mode real-time .*{re.escape(missing or '')}")
    with contextlib.nullcontext() if missing is None else refused:
        check_runtime()


def set_cluster(monkeypatch: pytest.MonkeyPatch, runtime: str | None, conf: dict[str, str]) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    if runtime is not None:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", runtime)
    monkeypatch.setattr(SparkSession, "builder", Cluster(conf))


def test_without_a_cluster_the_job_is_refused_before_it_asks_a_broker_or_creates_a_file(tmp_path: Path) -> None:
    settings = settings_of(SessionizeSettings,
        source="kafka", sink="kafka", bootstrap_servers="127.0.0.1:9", mode="real-time", trigger="5m",
        warehouse=tmp_path / "w", checkpoints=tmp_path / "c",
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="Databricks alone"):
        run(settings, threading.Event(), JobCallbacks(expect_no_line))
    assert list(tmp_path.iterdir()) == []


def engine_progress(batch_id: int, name: str = "sessionize", **more: Any) -> dict[str, Any]:
    """The engine's report on a batch in real-time mode."""
    report = engine(batch_id, name) | {"timestamp": "2025-11-21T12:00:00.123Z", "numInputRows": 7}
    return report | {"durationMs": {"triggerExecution": 60_123}} | more


def test_a_batch_is_stored_and_reported_with_the_values_that_the_engine_knows() -> None:
    session, calls = Session(), []
    listeners = [lambda one: calls.append(("report", one))]
    with report_engine_batches(
        session,  # type: ignore[arg-type]
        lambda one: calls.append(("store", one)),
        listeners,
        StateLayout(),
    ):
        session.hears(engine_progress(3, "archive"))
        session.hears(engine_progress(3))
        session.hears(engine_progress(4, stateOperators=[], durationMs={}))
    third = BatchProgress(
        "sessionize", 3, AT_MS, 7, 60_123, NO_PERCENTILES, state_rows=70, state_bytes=4096, state_entries=70
    )
    fourth = BatchProgress("sessionize", 4, AT_MS, 7, 0, NO_PERCENTILES)
    assert calls == [("store", third), ("report", third), ("store", fourth), ("report", fourth)]
    assert session.listeners == []
