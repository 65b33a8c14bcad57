"""The session of a caller: the job sets what it can, and every other setting must have the right value."""

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import InspectSettings
from sessionization.spark.engine import session
from sessionization.spark.engine.job_conf import DATABRICKS_CONF, MESSAGES_CONF, OPEN_SOURCE_CONF, TIME_ZONE_CONF
from sessionization.spark.engine.session import (
    KEEPS_FILES,
    REPLACES_FILES,
    job_session,
    session_for_uris,
    spark_session,
    use_scheduler_pool,
)
from tests.support.settings import settings_of

READ_ONLY, EXTENSIONS = "spark.scheduler.mode", "spark.sql.extensions"
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
CATALOG = "spark.sql.catalog.spark_catalog"


class Conf:
    """The settings of a session; `READ_ONLY` and `EXTENSIONS` cannot change while it runs."""

    def __init__(self, **values: str) -> None:
        self.values = values

    def get(self, name: str, default: str | None) -> str | None:
        return self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        if name in {READ_ONLY, EXTENSIONS}:
            msg = "CANNOT_MODIFY_CONFIG"
            raise PySparkException(msg)
        self.values[name] = value


class Cluster:
    def __init__(self, conf: Conf) -> None:
        self.conf = conf

    def getOrCreate(self) -> "Cluster":  # noqa: N802
        return self

    @property
    def sparkContext(self) -> Any:  # noqa: N802
        msg = "JVM_ATTRIBUTE_NOT_SUPPORTED"
        raise PySparkException(msg)


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch) -> Conf:
    conf = Conf()
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    monkeypatch.setattr(SparkSession, "builder", Cluster(conf))
    monkeypatch.setattr(SparkSession.builder, "_jvm", object(), raising=False)
    return conf


def test_a_cluster_with_the_settings_of_the_bundle_is_accepted(conf: Conf) -> None:
    conf.values[READ_ONLY] = "FAIR"
    assert spark_session(Path("unused")).conf is conf
    assert conf.values == DATABRICKS_CONF
    assert DATABRICKS_CONF["spark.sql.streaming.stateStore.providerClass"].startswith("com.databricks.")


@pytest.mark.parametrize(("found", "problem"), [({}, "is not set"), ({READ_ONLY: "FIFO"}, "is set to FIFO")])
def test_a_wrong_setting_that_a_running_cluster_cannot_change_is_an_error(
    conf: Conf, found: dict[str, str], problem: str
) -> None:
    conf.values.update(found)
    with pytest.raises(
        ConfigurationError, match=f"lacks settings .*: {READ_ONLY}=FAIR {problem}: .*bundles/sessionize.job.yml"
    ):
        spark_session(Path("unused"))


@pytest.mark.parametrize("depends_on", [TIME_ZONE_CONF, MESSAGES_CONF])
def test_a_job_without_a_stream_runs_on_any_compute_and_asks_only_for_what_it_depends_on(
    conf: Conf, monkeypatch: pytest.MonkeyPatch, depends_on: dict[str, str]
) -> None:
    monkeypatch.delattr(SparkSession.builder, "_jvm")
    assert spark_session(Path("unused"), depends_on).conf is conf
    assert conf.values == depends_on


def test_a_setting_that_serverless_compute_refuses_is_named(conf: Conf) -> None:
    with pytest.raises(ConfigurationError, match=f"{READ_ONLY}=FAIR is not set: run the job on a cluster, because"):
        spark_session(Path("unused"), {READ_ONLY: "FAIR"})


def test_a_stream_without_a_jvm_is_refused_in_one_line(conf: Conf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SparkSession.builder, "_jvm")
    with pytest.raises(ConfigurationError, match=r"^this job needs a cluster with dedicated access mode: serverless"):
        spark_session(Path("unused"))
    assert conf.values == {}


@pytest.fixture
def callers_conf(monkeypatch: pytest.MonkeyPatch) -> Conf:
    """The settings of a session that a notebook has made, elsewhere than on Databricks."""
    conf = Conf(**{"spark.master": "spark://theirs:7077", READ_ONLY: "FAIR"})
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    monkeypatch.setattr(SparkSession, "builder", Cluster(conf))
    return conf


def test_a_callers_session_keeps_its_settings_and_gets_those_of_the_job(callers_conf: Conf) -> None:
    callers_conf.values[EXTENSIONS] = f"theirs,{OPEN_SOURCE_CONF[EXTENSIONS]}"
    theirs = dict(callers_conf.values)
    assert spark_session(Path("unused")).conf is callers_conf
    assert callers_conf.values == OPEN_SOURCE_CONF | theirs


def test_a_job_without_a_stream_leaves_a_callers_other_settings_alone(callers_conf: Conf) -> None:
    callers_conf.values |= {READ_ONLY: "FIFO", EXTENSIONS: OPEN_SOURCE_CONF[EXTENSIONS]}
    theirs = dict(callers_conf.values)
    spark_session(Path("unused"), TIME_ZONE_CONF)
    assert callers_conf.values == theirs | TIME_ZONE_CONF | {CATALOG: OPEN_SOURCE_CONF[CATALOG]}


def test_every_setting_that_a_callers_session_lacks_is_named(callers_conf: Conf) -> None:
    callers_conf.values |= {READ_ONLY: "FIFO", "spark.sql.session.timeZone": "Asia/Tokyo"}
    message = f"{READ_ONLY}=FAIR is set to FIFO; {EXTENSIONS}=io.delta.* is not set: .*--conf NAME=VALUE"
    with pytest.raises(ConfigurationError, match=message):
        spark_session(Path("unused"))


@pytest.mark.parametrize(("found", "is_replaced"), [("builtin", True), ("theirs", False)])
def test_another_catalog_is_replaced_only_where_nobody_has_chosen_it(
    callers_conf: Conf, found: str, *, is_replaced: bool
) -> None:
    callers_conf.values |= {EXTENSIONS: OPEN_SOURCE_CONF[EXTENSIONS], CATALOG: found}
    if is_replaced:
        spark_session(Path("unused"))
        assert callers_conf.values[CATALOG] == OPEN_SOURCE_CONF[CATALOG]
    else:
        with pytest.raises(ConfigurationError, match=f"{CATALOG}=org.* is set to theirs: "):
            spark_session(Path("unused"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "spark.sql.shuffle.partitions is missing: give the number"),
        ({"spark.sql.catalog.spark_catalog": "theirs"}, "spark.sql.catalog.spark_catalog=theirs is not Delta's"),
    ],
)
def test_a_submitted_job_names_the_setting_that_the_caller_must_choose(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], message: str
) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", lambda: None)
    monkeypatch.setattr(session, "SparkConf", lambda: given)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(ConfigurationError, match=message):
        spark_session(Path("unused"))


def test_a_session_without_a_spark_context_stays_in_the_default_pool() -> None:
    use_scheduler_pool(Cluster(Conf()), "sessionize")  # type: ignore[arg-type]


class Engine:
    """A stand-in for a session; it records its log file and whether it was stopped."""

    def __init__(self) -> None:
        self.conf = Conf()
        self.log: Path | None = None
        self.had_a_log_folder = False
        self.is_stopped = False

    def started(self, log: Path, _depends_on: object) -> "Engine":
        self.log, self.had_a_log_folder = log, log.parent.is_dir()
        return self

    def stop(self) -> None:
        self.is_stopped = True
        raise Py4JNetworkError  # as a session does whose JVM was killed


@pytest.mark.parametrize("whose", ["a notebook's", "the job's own"])
@pytest.mark.parametrize("log", ["engine.log", None])
def test_a_job_configures_and_stops_only_a_session_that_it_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, whose: str, log: str | None
) -> None:
    engine, is_own = Engine(), whose == "the job's own"
    monkeypatch.setattr(session, "is_callers_session", lambda: not is_own)
    monkeypatch.setattr(session, "spark_session", engine.started)

    def run_failing_job() -> None:
        with job_session(log and tmp_path / log, {"a.b": "c"}) as spark:
            assert spark is engine
            assert not engine.is_stopped
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_failing_job()
    assert (engine.is_stopped, engine.conf.values) == (is_own, {"a.b": "c"} if is_own else {})
    assert engine.log is not None
    assert engine.had_a_log_folder
    assert (engine.log == tmp_path / "engine.log") == engine.log.parent.is_dir() == (log is not None)


@pytest.mark.parametrize(
    ("before", "after"),
    [(KEEPS_FILES, REPLACES_FILES), ("org.example.Abortable", "org.example.Abortable"), (None, None)],
)
def test_at_a_uri_only_the_manager_that_keeps_older_files_is_replaced(
    before: str | None, after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {} if before is None else {CHECKPOINT_FILES: before}
    settings = settings_of(InspectSettings, checkpoints="hdfs://host/checkpoints")
    engine = SimpleNamespace(conf=SimpleNamespace(get=found.get, set=found.__setitem__))
    monkeypatch.setattr(session, "job_session", lambda *_: contextlib.nullcontext(engine))
    with session_for_uris(settings, lambda _: None):
        assert found.get(CHECKPOINT_FILES) == after
