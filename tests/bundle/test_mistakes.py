"""Mistakes in the bundle that the CLI accepts: put into a copy, each is found."""

import shutil
from pathlib import Path

import pytest

from tools.bundle.checks import mistakes, shared
from tools.bundle.target import ROOT, TARGETS, read_target

SESSIONIZE, MAINTAIN, SIMULATE = (f"bundles/{job}.job.yml" for job in ("sessionize", "maintain", "simulate"))
MAIN, VARIABLES, CLUSTERS = "databricks.yml", "bundles/variables.yml", "bundles/clusters.yml"
SCHEMA, LANDING, LOGS = "bundles/sessions.schema.yml", "bundles/landing.volume.yml", "bundles/logs.volume.yml"
BACKLOG, STALE = "bundles/backlog.alert.yml", "bundles/stale_heartbeats.alert.yml"
OVERVIEW, WAREHOUSE = "bundles/session_overview.dashboard.yml", "bundles/session_queries.sql_warehouse.yml"
SETTINGS = "bundles/settings/prod.yml"
KAFKA_SETTINGS = "  type: kafka\n  bootstrap_servers: a:1\n"

MISTAKES = [
    # The settings of the jobs.
    (SETTINGS, "heartbeat: 30s", "heartbeat: 30sec", "rules.heartbeat '30sec' is not a duration"),
    (SETTINGS, "  type: files\n", "  type: kafka\n", "--bootstrap-servers is missing"),
    (SETTINGS, "maintain:\n", "maintain:\n  days: many\n", "days 'many' does not fit"),
    (SETTINGS, "  type: files\n", f"{KAFKA_SETTINGS}sink: {{type: kafka}}\nland_changes: {{x: 1}}\n", "x is not known"),
    (SETTINGS, "maintain:\n", "serving: {time_zone: Europe/Berlin}\nmaintain:\n", "--postgres is missing"),
    (SETTINGS, "  type: files\n", "  input: /Volumes/catalog/gaming_sessions_prod/checkpoints/in\n", "is in the volume checkpoints"),
    (SETTINGS, "  type: files\n", "  input: /Volumes/main/games/landing\n", "maintain would delete files of /Volumes/main/games/landing"),
    (SETTINGS, "  type: files\n", f"{KAFKA_SETTINGS}sink: {{type: kafka}}\npace: {{mode: real-time}}\n", "realTimeMode.enabled must be 'true'"),
    (SETTINGS, "  type: files\n", f"{KAFKA_SETTINGS}sink: {{type: kafka}}\npace: {{mode: real-time}}\n", "the workers must be on-demand"),
    (SETTINGS, "heartbeat: 30s", "heartbeat: 60s", "alert stale_heartbeats: its query must divide by rules.heartbeat, 60000 ms"),
    (SETTINGS, "rules:\n", "pace: {rollup_every: 2s-1m}\nrules:\n", "pace.rollup_every is above half of the threshold of the alert backlog"),
    # Jobs and clusters.
    (CLUSTERS, "spark.scheduler.mode: FAIR", "spark.scheduler.mode: FIFO", "spark_conf spark.scheduler.mode must be 'FAIR', not 'FIFO'"),
    (CLUSTERS, 'realTimeMode.enabled: "false"', 'realTimeMode.enabled: "true"', "realTimeMode.enabled must be 'false'"),
    (CLUSTERS, "&dedicated SINGLE_USER", "&dedicated USER_ISOLATION", "data_security_mode must be SINGLE_USER"),
    (CLUSTERS, "&engine STANDARD", "&engine PHOTON", "no Photon"),
    (CLUSTERS, "num_workers: ${var.workers}", "autoscale: {min_workers: 1, max_workers: 4}", "no autoscale"),
    (CLUSTERS, 'boundedMemoryUsage: "true"', 'boundedMemoryUsage: "false"', "RocksDB would take the machine's memory"),
    (CLUSTERS, 'PYTHONUNBUFFERED: "1"', "KAFKA_PASSWORD: hunter2", "KAFKA_PASSWORD must be a reference"),
    (CLUSTERS, "${resources.volumes.logs.name}", "${resources.volumes.checkpoints.name}", "must deliver logs to the volume logs"),
    (SESSIONIZE, "max_concurrent_runs: 1", "max_concurrent_runs: 2", "two runs would use one checkpoint"),
    (MAINTAIN, "enabled: false", "enabled: true", "without a queue"),
    (MAINTAIN, "        on_failure: ${var.notify_emails}\n", "        on_start: []\n", "email_notifications.on_failure is missing"),
    (MAINTAIN, "            - whl: ../dist/*.whl\n", "", "the wheel is missing"),
    (SESSIONIZE, "timeout_seconds: 0", "timeout_seconds: 3600", "a stream has no end"),
    (SESSIONIZE, "job-run-id:", "job-run:", "base_parameters must give job-run-id"),
    (SESSIONIZE, "      tasks:\n", "      tasks:\n        - task_key: again\n          notebook_task: {notebook_path: x}\n", "two would share the checkpoint"),
    # Targets.
    (MAIN, "0 0/3 * * * ?", "0/3 * * * ?", "cron '0/3 * * * ?' is none"),
    (MAIN, "0 0/3 * * * ?", "0 0/3 * * * *", "and ? for one of the days"),
    (MAIN, "0 0/3 * * * ?", "0 0/3 * ? * MON-FRI", "minutes between two starts: at most 10"),
    (MAIN, "environment: prod\n", "environment: prod\n      trigger_pause_status: PAUSED\n", "nothing would start"),
    (MAIN, "service_principal_name: ${var.service_principal}\n    permissions", "user_name: a@b\n    permissions", "run_as must be a service principal"),
    (MAIN, "root_path: /Workspace/Users/${var.service_principal}/", "root_path: /Workspace/Shared/", "must be in the service principal's folder"),
    (MAIN, "      branch: main\n", "      commit: x\n", "any branch could be deployed"),
    (MAIN, "      notify_emails:\n        - ${var.on_call}\n", "", "nobody hears of a failed run of sessionize"),
    (MAIN, "      keep_tables: true\n", "", "keep_tables must be true"),
    (MAIN, "      keep_tables: true\n", "      keep_tables: true\n      alert_subscriptions: []\n", "nobody hears of the alerts"),
    (MAIN, "      alert_pause_status: UNPAUSED\n", "", "with subscribers alert_pause_status must be UNPAUSED"),
    (MAIN, "--silent watched wheel", "--silent wheel", "its build must ask for `watched`"),
    (SIMULATE, "\n  staging:\n", "\n  prod:\n", "the job simulate would put its players among those who play"),
    # Tables, volumes and rights.
    (LANDING, "catalog_name: ${var.catalog}", "catalog_name: games", "volume landing: it must be in the target's own schema"),
    (LANDING, "name: landing", "name: arrivals", "and be named landing"),
    (LANDING, "volume_type: MANAGED", "volume_type: EXTERNAL", "volume_type must be MANAGED"),
    (SCHEMA, "[USE_SCHEMA, SELECT]", "[USE_SCHEMA, SELECT, MODIFY]", "sessions: the jobs need"),
    (LOGS, "[READ_VOLUME, WRITE_VOLUME]", "[READ_VOLUME]", "logs: the jobs need"),
    # What people look at.
    (BACKLOG, "GREATER_THAN", "LESS_THAN", "it would go off only while all is well"),
    (BACKLOG, "${resources.schemas.sessions.name}", "gaming_sessions_dev", "query_text must ask the target's own views"),
    (BACKLOG, "0 0/15 * * * ?", "0 0 * * * ?", "leaves 60 minutes between two starts: at most 30"),
    (OVERVIEW, "embed_credentials: false", "embed_credentials: true", "viewers would read with the deployer's rights"),
    (OVERVIEW, "dataset_schema: ${resources.schemas.sessions.name}", "dataset_schema: other", "must be the target's"),
    (WAREHOUSE, "auto_stop_mins: 1", "auto_stop_mins: 10", "stop after 1 minute"),
    (WAREHOUSE, "group_name: users", "group_name: admins", "users need CAN_USE"),
]  # fmt: skip


@pytest.fixture
def bundle_copy(tmp_path: Path) -> Path:
    shutil.copy(ROOT / MAIN, tmp_path)
    shutil.copytree(ROOT / "bundles", tmp_path / "bundles")
    return tmp_path


def change(root: Path, file: str, correct: str, wrong: str) -> None:
    text = (root / file).read_text(encoding="utf-8")
    assert correct in text, "the mistake does not fit the bundle any more"
    (root / file).write_text(text.replace(correct, wrong), encoding="utf-8")


@pytest.mark.parametrize(("file", "correct", "wrong", "expected"), MISTAKES)
def test_a_mistake_is_found(bundle_copy: Path, file: str, correct: str, wrong: str, expected: str) -> None:
    change(bundle_copy, file, correct, wrong)
    found = list(mistakes(read_target("prod", bundle_copy), bundle_copy / "bundles/settings"))
    assert any(expected in mistake for mistake in found), found


@pytest.mark.parametrize(
    ("file", "correct", "wrong", "expected"),
    [
        (SCHEMA, "name: ${var.schema}_${bundle.target}", "name: ${var.schema}", "share ('catalog', 'gaming_sessions')"),
        (
            MAIN,
            "/${bundle.name}/${bundle.target}",
            "/${bundle.name}",
            "targets staging and prod share /Workspace/Users/",
        ),
        (SETTINGS, "rules:\n", "state: {checkpoints: /Volumes/a/b/c}\nrules:\n", "share /Volumes/a/b/c"),
        (SETTINGS, "  type: files\n", f"{KAFKA_SETTINGS}sink: {{type: kafka}}\n", "share ('a:1', 'output_sessions')"),
    ],
)
def test_a_place_of_two_targets_is_found(bundle_copy: Path, file: str, correct: str, wrong: str, expected: str) -> None:
    change(bundle_copy, file, correct, wrong)
    if file == SETTINGS:
        change(bundle_copy, SETTINGS.replace("prod", "continuous"), correct, wrong)
    found = list(shared([read_target(target, bundle_copy) for target in TARGETS], bundle_copy / "bundles/settings"))
    assert any(expected in mistake for mistake in found), found


@pytest.mark.parametrize(
    ("subscribers", "is_right"),
    [
        ([{"destination_id": "x"}], True),
        ([{"user_email": "0000-1111"}], False),
        ([{"user_email": "a@b", "destination_id": "x"}], False),
    ],
)
def test_a_subscriber_is_a_user_or_a_destination(subscribers: list[dict[str, str]], *, is_right: bool) -> None:
    found = list(mistakes(read_target("prod", alert_subscriptions=subscribers)))
    assert (found == []) is is_right
    assert all("the subscriber" in mistake for mistake in found)
