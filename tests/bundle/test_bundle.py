"""The bundle is right: for every target, and in what the checks cannot see."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sessionization.job import sessionize_job
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.session import CLUSTER_CONF
from tools.bundle.checks import findings
from tools.bundle.generate import RESOLVED, resolved_prod
from tools.bundle.job_options import JOBS
from tools.bundle.jobs import quartz_mistake
from tools.bundle.resolve import resolve
from tools.bundle.sources import ROOT, read_sources
from tools.bundle.spark_keys import known_spark_keys

TARGETS = ("dev", "staging", "prod", "continuous")


def test_there_is_no_mistake() -> None:
    assert findings(ROOT) == []


def test_prod_resolves_to_what_was_reviewed() -> None:
    """A change of what prod deploys shows in the file that `make bundle` writes."""
    assert RESOLVED.read_text(encoding="utf-8") == resolved_prod()


def test_the_targets_are_those_that_the_documents_name() -> None:
    assert tuple(read_sources(ROOT).targets) == TARGETS


def test_every_job_has_its_settings_checked() -> None:
    assert {key for _file, kind, key, _fields in read_sources(ROOT).resources() if kind == "jobs"} == JOBS.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_made_up_players_are_where_nobody_plays(target: str) -> None:
    jobs = resolve(read_sources(ROOT), target).resources["jobs"]
    assert ("simulate" in jobs) is (target in {"dev", "staging"})


def test_the_notebook_is_what_the_job_runs_and_holds_no_output() -> None:
    job = resolve(read_sources(ROOT), "prod").resources["jobs"]["sessionize"]
    (path,) = (task["notebook_task"]["notebook_path"] for task in job["tasks"])
    assert path == "../notebooks/02_sessionize.ipynb"
    notebook = json.loads((ROOT / "notebooks/02_sessionize.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    for cell in cells:
        compile("".join(cell["source"]), "02_sessionize", "exec")


class JobWidgets:
    """`dbutils.widgets` in a run of the job: what the job gives wins over a widget's default."""

    def __init__(self, given: dict[str, str]) -> None:
        self._texts = dict(given)

    def text(self, name: str, default: str, _label: str) -> None:
        self._texts.setdefault(name, default)

    def dropdown(self, name: str, default: str, choices: Sequence[str], _label: str) -> None:
        self._texts.setdefault(name, default)
        assert self._texts[name] in choices

    def get(self, name: str) -> str:
        return self._texts[name]


def played(monkeypatch: pytest.MonkeyPatch) -> list[SessionizeSettings]:
    """Run the notebook's cells as a task of the job does, and give what the stream was called with."""
    job = resolve(read_sources(ROOT), "prod").resources["jobs"]["sessionize"]
    given = {parameter["name"]: parameter["default"] for parameter in job["parameters"]}
    given |= job["tasks"][0]["notebook_task"]["base_parameters"]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    called: list[SessionizeSettings] = []
    monkeypatch.setattr(sessionize_job, "run_and_print_summary", lambda settings, _say: called.append(settings))
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=JobWidgets(given)), "display": pytest.fail}
    notebook = json.loads((ROOT / "notebooks/02_sessionize.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return called


def test_the_notebook_hands_the_jobs_parameters_to_the_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    (settings,) = played(monkeypatch)
    assert (settings.catalog, settings.schema_name, settings.heartbeat) == ("main", "gaming_sessions_prod", 30_000)
    assert str(settings.checkpoints) == "/Volumes/main/gaming_sessions_prod/checkpoints/sessionize"


def test_checkpoint_and_tables_live_in_the_schema_of_their_target() -> None:
    for target in TARGETS:
        resources = resolve(read_sources(ROOT), target).resources
        schema = resources["schemas"]["sessions"]
        given = {entry["name"]: entry["default"] for entry in resources["jobs"]["sessionize"]["parameters"]}
        home = f"/Volumes/{schema['catalog_name']}/{schema['name']}/"
        assert schema["name"].endswith(f"_{target}")
        assert (given["catalog"], given["schema"]) == (schema["catalog_name"], schema["name"])
        assert given["checkpoints"].startswith(home)
        assert given["input"].startswith(home)


def test_sparks_settings_are_known_by_their_names() -> None:
    known = known_spark_keys()
    assert known > CLUSTER_CONF.keys()
    assert "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage" in known
    assert "spark.sql.streaming.stateStore.rocksdb.boundedMemory" not in known
    assert "spark.sql.shuffle.partition" not in known


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("0 0/5 * * * ?", None),
        ("0 20 5 ? * MON-FRI", None),
        ("0 20 5 * * ? 2027", None),
        ("0/5 * * * *", "5 fields"),
        ("0 0/5 * * * *", "Quartz wants ?"),
        ("0 0/5 * ? * ?", "Quartz wants ?"),
        ("0 20 5 ? * 0", "days of the week by name"),
        ("0 20 5 ? * FRI#2", None),
        ("0 61 * * * ?", "is no time"),
        ("0 0 25 * * ?", "is no time"),
        ("", "0 fields"),
    ],
)
def test_cron_as_quartz_reads_it(expression: str, told: str | None) -> None:
    mistake = quartz_mistake(expression)
    assert mistake is None if told is None else told in str(mistake)
