"""The targets of the bundle have no mistake, and every job starts with the options and widgets that it gives."""

from types import SimpleNamespace
from typing import Any

import pytest
from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.job_runs import JobRun
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.sql_warehouses import SqlWarehouse
from databricks.bundles.volumes import Volume

from sessionization.backfill.backfill_settings import BackfillSettings
from sessionization.command_line.options import options_of, task_arguments
from sessionization.command_line.parser import read_settings
from sessionization.job import sessionize_job
from sessionization.ml.forecast import ForecastSettings
from sessionization.ops.maintenance_settings import (
    EraseSettings,
    InspectSettings,
    LandChangesSettings,
    MaintainSettings,
    RescaleSettings,
)
from sessionization.players.players_settings import PlayersSettings
from sessionization.serving.serving_settings import ServingSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.engine.job_conf import DATABRICKS_CONF
from sessionization_laptop.laptop_notebook import LaptopWidgets
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.bundle.prod import RESOURCES
from tests.nutter.trial import TrialSettings
from tests.support.dashboards import dashboard_findings
from tests.support.notebook_cells import run_cells
from tools.bundle.checks import mistakes, shared
from tools.bundle.target import ROOT, TARGETS, read_bundle, read_target

MODELS: dict[str, Any] = {
    "jobs": Job,
    "job_runs": JobRun,
    "schemas": Schema,
    "volumes": Volume,
    "dashboards": Dashboard,
    "alerts": Alert,
    "sql_warehouses": SqlWarehouse,
}
SETTINGS = {
    "sessionize": SessionizeSettings, "preflight": SessionizeSettings, "land_changes": LandChangesSettings,
    "maintain": MaintainSettings, "backfill": BackfillSettings, "erase_account": EraseSettings,
    "inspect_state": InspectSettings, "rescale_state": RescaleSettings, "simulate": SimulateSettings,
    "players": PlayersSettings, "predict_remaining": ForecastSettings, "workspace_tests": TrialSettings,
    "serve_sessions": ServingSettings,
}  # fmt: skip
FURTHER = {
    "land_changes": ("--source=kafka", "--bootstrap-servers=a:9092", "--sink=kafka"),
    "serve_sessions": ("--postgres=host=db.example",),
}
"""What jobs that a studio may not need must be given, and the settings of the targets do not have."""
MOST_VARIABLES, MOST_LINES = 20, 70


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_no_mistake(target: str) -> None:
    assert list(mistakes(read_target(target))) == []


def test_no_two_targets_share_a_place() -> None:
    assert list(shared([read_target(target) for target in TARGETS])) == []


@pytest.mark.parametrize("target", TARGETS)
def test_every_resource_is_one_of_databricks_models(target: str) -> None:
    for kind, by_key in read_target(target)["resources"].items():
        for fields in by_key.values():
            MODELS[kind].from_dict(fields)


def test_the_bundle_stays_small_enough_to_read() -> None:
    assert len(read_bundle()["variables"]) <= MOST_VARIABLES
    jobs = list((ROOT / "bundles").glob("*.job.yml"))
    assert {file.name for file in jobs if len(file.read_text().splitlines()) > MOST_LINES} == set()


def test_both_clusters_have_the_settings_that_the_results_depend_on() -> None:
    clusters = {name: read_bundle()["variables"][name]["default"] for name in ("job_cluster", "stream_cluster")}
    assert all(cluster["spark_conf"].items() >= DATABRICKS_CONF.items() for cluster in clusters.values())


@pytest.mark.parametrize("target", TARGETS)
def test_only_targets_without_players_have_the_simulator(target: str) -> None:
    assert ("simulate" in read_target(target)["resources"]["jobs"]) is (target in {"dev", "staging"})


@pytest.mark.parametrize("key", sorted(RESOURCES["jobs"]))
def test_the_parameters_of_a_task_are_those_of_its_job(key: str) -> None:
    """The CLI accepts a reference to a parameter that the job does not have."""
    job = RESOURCES["jobs"][key]
    names = {parameter["name"] for parameter in job["parameters"]}
    for words in (task["spark_python_task"]["parameters"] for task in job["tasks"] if "spark_python_task" in task):
        given = dict(word.removeprefix("--").split("=", 1) for word in words)
        referred = {value.removeprefix("{{job.parameters.").strip("`}") for value in given.values() if "{{" in value}
        assert referred == names
        assert all(name in given for name in names)


def test_the_dashboards_parts_fit_together() -> None:
    text = (ROOT / "bundles/session_overview.lvdash.json").read_text(encoding="utf-8")
    assert list(dashboard_findings(text)) == []
    wrong = text.replace('"fieldName": "platform"', '"fieldName": "platforms"')
    assert any("shows platforms" in finding for finding in dashboard_findings(wrong))


def given(target: str, key: str) -> dict[str, str]:
    """The options that a job gives by default, with the settings file in this checkout."""
    job = read_target(target)["resources"]["jobs"][key]
    defaults = {parameter["name"]: parameter["default"] for parameter in job["parameters"]}
    task = job["tasks"][0]
    words = task["spark_python_task"]["parameters"] if "spark_python_task" in task else ()
    fixed = dict(word.removeprefix("--").split("=", 1) for word in words)
    texts = {**fixed, **defaults}
    if "settings" in texts:
        texts["settings"] = texts["settings"].replace(f"/Workspace/{target}/files", str(ROOT))
    return texts


@pytest.mark.parametrize(
    ("target", "key"), [(target, key) for target in TARGETS for key in read_target(target)["resources"]["jobs"]]
)
def test_a_job_is_started_with_settings_that_it_accepts(target: str, key: str) -> None:
    model = SETTINGS[key]
    texts = given(target, key)
    assert texts.keys() <= {option.name for option in options_of(model)}
    arguments = task_arguments(options_of(model), [f"--{name}={text}" for name, text in texts.items()])
    settings = read_settings(model, [*arguments, *FURTHER.get(key, ())])
    schema = read_target(target)["resources"]["schemas"]["sessions"]
    if key != "simulate":
        assert (settings.tables.catalog, settings.tables.schema_name) == (schema["catalog_name"], schema["name"])


def test_the_volumes_are_where_the_settings_expect_the_input_and_the_checkpoints() -> None:
    settings = read_settings(
        SessionizeSettings, [f"--{name}={text}" for name, text in given("prod", "sessionize").items() if text]
    )
    volumes = read_target("prod")["resources"]["volumes"]
    folders = {key: "/Volumes/{catalog_name}/{schema_name}/{name}".format(**volume) for key, volume in volumes.items()}
    assert str(settings.input_folder) == folders["landing"]
    assert str(settings.state.checkpoints) == f"{folders['checkpoints']}/sessionize"


def test_the_notebook_starts_the_stream_once_with_the_jobs_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[SessionizeSettings] = []
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    monkeypatch.setattr(sessionize_job, "run_and_print_summary", lambda settings, *_say: calls.append(settings))
    texts = given("dev", "sessionize") | {"job-run-id": "1"}
    names: dict[str, Any] = {"dbutils": SimpleNamespace(widgets=LaptopWidgets(texts)), "display": pytest.fail}
    run_cells(ROOT / "notebooks/02_sessionize.ipynb", names, {})
    (settings,) = calls
    assert settings.tables.model_dump() == {"catalog": "catalog", "schema_name": "dev_someone_gaming_sessions_dev"}
    assert (settings.run_for_ms, settings.rules.heartbeat_ms) == (4 * 3_600_000, 30_000)
