"""Mistakes that people make in a bundle, each seeded into a copy: the checks must name the file and the mistake."""

import shutil
from pathlib import Path

import pytest

from tests.bundle.checks import findings
from tests.bundle.sources import ROOT

SESSIONIZE = "bundles/sessionize.job.yml"
VARIABLES = "bundles/variables.yml"
MAIN = "databricks.yml"
SCHEMA = "bundles/sessions.schema.yml"

MISTAKES = [
    ("typo in a field", SESSIONIZE, "max_concurrent_runs: 1", "max_concurent_runs: 1", SESSIONIZE, "max_concurent_runs"),
    ("typo in an enum", SESSIONIZE, "data_security_mode: SINGLE_USER", "data_security_mode: SINGLE_USR", SESSIONIZE, "SINGLE_USR"),
    ("missing task_key", SESSIONIZE, "- task_key: sessionize_file\n          disabled", "- disabled", SESSIONIZE, "task_key"),
    ("duplicate key", SESSIONIZE, "timeout_seconds: 0", "timeout_seconds: 0\n      timeout_seconds: 60", SESSIONIZE, 'duplicate key "timeout_seconds"'),
    ("unknown variable", SESSIONIZE, "${var.workers}", "${var.wrokers}", SESSIONIZE, "${var.wrokers} leads nowhere"),
    ("unknown field of a variable", SESSIONIZE, "${var.disabled_entry_points.file}", "${var.disabled_entry_points.script}", SESSIONIZE, "${var.disabled_entry_points.script} leads nowhere"),
    ("unknown resource", SESSIONIZE, "${resources.schemas.sessions.name}", "${resources.schemas.session.name}", SESSIONIZE, "${resources.schemas.session.name} leads nowhere"),
    ("unknown field of a resource", "bundles/landing.volume.yml", "${resources.schemas.sessions.name}", "${resources.schemas.sessions.nam}", "bundles/landing.volume.yml", "${resources.schemas.sessions.nam} leads nowhere"),
    ("unknown word of the bundle", SCHEMA, "${bundle.target}", "${bundle.targt}", SCHEMA, "${bundle.targt} leads nowhere"),
    ("unknown word of the workspace", MAIN, "runner: ${workspace.current_user.userName}", "runner: ${workspace.current_user.username}", MAIN, "${workspace.current_user.username} leads nowhere"),
    ("missing file", SESSIONIZE, "../notebooks/02_sessionize.ipynb", "../notebooks/02_sessionise.ipynb", SESSIONIZE, "02_sessionise.ipynb is not there"),
    ("missing dashboard", "bundles/evening.dashboard.yml", "evening.lvdash.json", "evenings.lvdash.json", "bundles/evening.dashboard.yml", "evenings.lvdash.json is not there"),
    ("wheel that nothing builds", SESSIONIZE, "../dist/*.whl", "../wheels/*.whl", SESSIONIZE, "wheels/*.whl is what no artifact"),
    ("cron with minutes first", VARIABLES, "default: 0 0/3 * * * ?", "default: 0/3 * * * ?", SESSIONIZE, "'0/3 * * * ?' has 5 fields"),
    ("cron out of range", VARIABLES, "default: 0 20 5 * * ?", "default: 0 20 25 * * ?", "bundles/maintain.job.yml", "'0 20 25 * * ?' is no time"),
    ("unknown time zone", "bundles/no_data.alert.yml", "timezone_id: UTC", "timezone_id: Utopia", "bundles/no_data.alert.yml", "'Utopia' is no time zone"),
    ("wrong parameter name", SESSIONIZE, "- name: session-timeout", "- name: session-time-out", SESSIONIZE, "parameter session-time-out is no option of jobs/sessionize.py"),
    ("parameter left out", "bundles/simulate.job.yml", "        - name: seed\n          default: ${var.simulate_seed}\n", "", "bundles/simulate.job.yml", "parameter seed is missing"),
    ("another default", VARIABLES, "default: 30s", "default: 45s", SESSIONIZE, "parameter heartbeat is '45s' by default, but --heartbeat is '30s'"),
    ("option not handed on", SESSIONIZE, "{{job.parameters.trigger}}", "{{job.parameters.triger}}", SESSIONIZE, "hands on no option"),
    ("checkpoint and tables shared by two targets", SCHEMA, "name: ${var.schema}_${bundle.target}", "name: ${var.schema}", SCHEMA, "targets staging and prod share the tables (schemas.sessions) main.gaming_sessions"),
    ("checkpoint shared by two targets", SESSIONIZE, "default: /Volumes/${resources.volumes.checkpoints.catalog_name}/${resources.volumes.checkpoints.schema_name}/${resources.volumes.checkpoints.name}/sessionize", "default: /Volumes/main/streams/checkpoints", SESSIONIZE, "share the checkpoints of job sessionize /Volumes/main/streams/checkpoints"),
    ("misspelt spark_conf", SESSIONIZE, "spark.sql.shuffle.partitions", "spark.sql.shuffle.partition", SESSIONIZE, "spark_conf spark.sql.shuffle.partition is no setting of Spark"),
    ("a setting that the job needs", SESSIONIZE, "              spark.scheduler.mode: FAIR\n", "", SESSIONIZE, "spark_conf spark.scheduler.mode must be 'FAIR'"),
    ("a setting that maintain needs", "bundles/maintain.job.yml", "              spark.scheduler.mode: FAIR\n", "", "bundles/maintain.job.yml", "spark_conf spark.scheduler.mode must be 'FAIR'"),
    ("a setting that nutter needs", "bundles/nutter.job.yml", "              spark.scheduler.mode: FAIR\n", "", "bundles/nutter.job.yml", "spark_conf spark.scheduler.mode must be 'FAIR'"),
    ("bad runtime", VARIABLES, "default: 18.2.x-scala2.13", "default: 18.2-scala", SESSIONIZE, "spark_version '18.2-scala' is not a Databricks Runtime"),
    ("cluster that is not there", SESSIONIZE, "- job_cluster_key: stream", "- job_cluster_key: streams", SESSIONIZE, "job_cluster_key 'stream' is no cluster of the job"),
    ("two entry points at once", VARIABLES, "      file: true", "      file: false", SESSIONIZE, "exactly one may"),
    ("trigger that stays on in development", MAIN, "# Paused by the mode; no pause_status here, for an explicit one would survive it.\n          schedule:", "schedule:\n            pause_status: UNPAUSED", SESSIONIZE, "would survive development mode"),
    ("production without an identity", MAIN, "    run_as:\n      service_principal_name: ${var.service_principal}\n", "", MAIN, "target staging: run_as must be a service principal"),
    ("folder that everybody can write", MAIN, "root_path: /Workspace/Users/${var.service_principal}/", "root_path: /Workspace/Shared/", MAIN, "/Workspace/Shared can be written by everybody"),
    ("unknown privilege", SCHEMA, "[USE_SCHEMA, SELECT]", "[USE_SCHEMA, SELECTS]", SCHEMA, "SELECTS"),
    ("grant to nobody", SCHEMA, "- principal: ${var.reader}\n          privileges", "- privileges", SCHEMA, "needs a principal and privileges"),
    ("secret in plain", "bundles/simulate.job.yml", "spark_env_vars: ${var.simulate_environment}", "spark_env_vars:\n              KAFKA_PASSWORD: hunter2", "bundles/simulate.job.yml", "KAFKA_PASSWORD must be a reference"),
    ("secret in plain as an option", VARIABLES, 'KEY=secret:SCOPE/KEY\n    default: ""', "KEY=secret:SCOPE/KEY\n    default: kafka.sasl.jaas.config=hunter2", SESSIONIZE, "is a secret"),
    ("variable that nothing uses", VARIABLES, "  catalog:\n", "  catalogue:\n    description: where\n    default: main\n  catalog:\n", VARIABLES, "variable catalogue is used nowhere"),
    ("widget without its column", "bundles/evening.lvdash.json", '"fieldName": "platform"', '"fieldName": "platforms"', "bundles/evening.lvdash.json", "shows platforms, which it does not ask for"),
    ("dataset that is not there", "bundles/evening.lvdash.json", '"datasetName": "latency"', '"datasetName": "latencies"', "bundles/evening.lvdash.json", "asks the unknown dataset latencies"),
    ("same key for two kinds", "bundles/landing.volume.yml", "    landing:", "    checkpoints:", "bundles/landing.volume.yml", "the key checkpoints is used in bundles/checkpoints.volume.yml too"),
    ("two runs at once", SESSIONIZE, "max_concurrent_runs: 1", "max_concurrent_runs: 2", SESSIONIZE, "max_concurrent_runs must be 1"),
    ("runs that wait", "bundles/maintain.job.yml", "enabled: false", "enabled: true", "bundles/maintain.job.yml", "queue.enabled must be false"),
    ("option without a variable", SESSIONIZE, "default: ${var.sessionize_heartbeat}", "default: 30s", SESSIONIZE, "parameter heartbeat must be ${var.sessionize_heartbeat}"),
    ("two resources in a file", "bundles/landing.volume.yml", "    landing:", "    arrivals:\n      catalog_name: main\n      schema_name: other\n      name: arrivals\n    landing:", "bundles/landing.volume.yml", "one resource a file, named after it"),
    ("dependency in a continuous job", SESSIONIZE, "- task_key: sessionize_file\n", "- task_key: sessionize_file\n          depends_on: [{task_key: sessionize}]\n", SESSIONIZE, "a continuous job allows neither"),
    ("autoscale", SESSIONIZE, "num_workers: ${var.workers}", "autoscale: {min_workers: 1, max_workers: 4}\n            num_workers: ${var.workers}", SESSIONIZE, "no autoscale"),
    ("task that takes itself for a person", SESSIONIZE, "job-run-id:", "job-run:", SESSIONIZE, "task sessionize: base_parameters must give job-run-id"),
    ("tests that are not deployed", MAIN, "    - tests/nutter\n", "", "bundles/nutter.job.yml", "is in no folder that goes into the workspace"),
    ("section that is none", MAIN, "include:", "includes:", MAIN, "includes is not a section of a bundle"),
]  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copy(ROOT / MAIN, tmp_path)
    for folder in ("bundles", "notebooks", "jobs", "tests/nutter"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_copy_has_no_mistake_yet(copied: Path) -> None:
    assert findings(copied) == []


@pytest.mark.parametrize(
    ("file", "right", "wrong", "named", "told"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_a_mistake_is_found(copied: Path, file: str, right: str, wrong: str, named: str, told: str) -> None:
    text = (copied / file).read_text(encoding="utf-8")
    assert right in text, "the seed does not fit the bundle any more"
    (copied / file).write_text(text.replace(right, wrong), encoding="utf-8")
    found = findings(copied)
    assert any(finding.file == named and told in finding.mistake for finding in found), "\n".join(map(str, found))
