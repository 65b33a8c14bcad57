"""The bundle has no mistake for any target, also in matters that the checks cannot see."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sessionization.job import sessionize_job
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.job_conf import DATABRICKS_CONF
from tests.bundle.prod import RESOURCES
from tools.bundle.checks import findings
from tools.bundle.generate import RESOLVED, resolved_prod
from tools.bundle.job_options import JOBS
from tools.bundle.jobs import quartz_mistake
from tools.bundle.resolve import resolve
from tools.bundle.sources import ROOT, read_sources
from tools.bundle.spark_keys import known_spark_keys

TARGETS = ("dev", "staging", "prod", "continuous")


def test_the_checks_find_no_mistake() -> None:
    assert findings(ROOT) == []


def test_prod_resolves_to_the_reviewed_file() -> None:
    """A change to prod's resources shows in the file that `make bundle` writes."""
    assert RESOLVED.read_text(encoding="utf-8") == resolved_prod()


def test_the_bundle_has_the_documented_targets() -> None:
    assert tuple(read_sources(ROOT).targets) == TARGETS


def test_the_checks_know_the_settings_of_every_job() -> None:
    assert {key for _file, kind, key, _fields in read_sources(ROOT).resources() if kind == "jobs"} == JOBS.keys()


@pytest.mark.parametrize("target", TARGETS)
def test_only_targets_without_players_have_the_simulator(target: str) -> None:
    jobs = resolve(read_sources(ROOT), target).resources["jobs"]
    assert ("simulate" in jobs) is (target in {"dev", "staging"})


def test_the_job_runs_a_notebook_without_outputs() -> None:
    job = RESOURCES["jobs"]["sessionize"]
    (path,) = (task["notebook_task"]["notebook_path"] for task in job["tasks"])
    assert path == "../notebooks/02_sessionize.ipynb"
    notebook = json.loads((ROOT / "notebooks/02_sessionize.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)
    for cell in cells:
        compile("".join(cell["source"]), "02_sessionize", "exec")


class JobWidgets:
    """`dbutils.widgets` in a run of the job: the job's parameters override a widget's default."""

    def __init__(self, given: dict[str, str]) -> None:
        self._texts = dict(given)

    def text(self, name: str, default: str, _label: str) -> None:
        self._texts.setdefault(name, default)

    def dropdown(self, name: str, default: str, choices: Sequence[str], _label: str) -> None:
        self._texts.setdefault(name, default)
        assert self._texts[name] in choices

    def get(self, name: str) -> str:
        return self._texts[name]


def run_notebook(monkeypatch: pytest.MonkeyPatch) -> list[SessionizeSettings]:
    """Run the notebook's cells as a task of the job does, and return the settings that it calls the stream with."""
    job = RESOURCES["jobs"]["sessionize"]
    given = {parameter["name"]: parameter["default"] for parameter in job["parameters"]}
    given |= job["tasks"][0]["notebook_task"]["base_parameters"]
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    calls: list[SessionizeSettings] = []
    monkeypatch.setattr(sessionize_job, "run_and_print_summary", lambda settings, *_say: calls.append(settings))
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=JobWidgets(given)), "display": pytest.fail}
    notebook = json.loads((ROOT / "notebooks/02_sessionize.ipynb").read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    return calls


def test_the_notebook_starts_the_stream_once_with_the_jobs_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    (settings,) = run_notebook(monkeypatch)
    assert (settings.catalog, settings.schema_name, settings.heartbeat) == ("catalog", "gaming_sessions_prod", 30_000)
    assert str(settings.checkpoints) == "/Volumes/catalog/gaming_sessions_prod/checkpoints/sessionize"


def test_checkpoints_input_and_tables_are_in_the_targets_schema() -> None:
    for target in TARGETS:
        resources = resolve(read_sources(ROOT), target).resources
        schema = resources["schemas"]["sessions"]
        given = {entry["name"]: entry["default"] for entry in resources["jobs"]["sessionize"]["parameters"]}
        home = f"/Volumes/{schema['catalog_name']}/{schema['name']}/"
        assert schema["name"].endswith(f"_{target}")
        assert (given["catalog"], given["schema"]) == (schema["catalog_name"], schema["name"])
        assert given["checkpoints"].startswith(home)
        assert given["input"].startswith(home)


def test_the_names_of_sparks_settings_are_known() -> None:
    known = known_spark_keys()
    assert known > DATABRICKS_CONF.keys()
    assert "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage" in known
    assert "spark.sql.streaming.stateStore.rocksdb.boundedMemory" not in known
    assert "spark.sql.shuffle.partition" not in known


@pytest.mark.parametrize(
    ("expression", "expected"),
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
def test_a_cron_expression_is_checked_as_quartz_reads_it(expression: str, expected: str | None) -> None:
    mistake = quartz_mistake(expression)
    assert mistake is None if expected is None else expected in str(mistake)
