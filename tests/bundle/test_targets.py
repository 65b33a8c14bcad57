"""The targets of the bundle: without a mistake, for Databricks' models, for the checks and for the CLI."""

from typing import Any

import pytest
from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.job_runs import JobRun
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.sql_warehouses import SqlWarehouse
from databricks.bundles.volumes import Volume

from sessionization.spark.engine.job_conf import DATABRICKS_CONF
from tests.bundle.prod import RESOURCES
from tests.support.dashboards import dashboard_findings
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
