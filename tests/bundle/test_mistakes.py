"""Seeds typical mistakes into a copy of the bundle; the checks must name the file and the mistake."""

import shutil
from pathlib import Path

import pytest

from tools.bundle.checks import findings
from tools.bundle.sources import ROOT

SESSIONIZE = "bundles/sessionize.job.yml"
VARIABLES = "bundles/variables.yml"
MAIN = "databricks.yml"
SCHEMA = "bundles/sessions.schema.yml"
SIMULATE = "bundles/simulate.job.yml"
LANDING = "bundles/landing.volume.yml"
TESTS = "bundles/workspace_tests.job.yml"
MAINTAIN = "bundles/maintain.job.yml"
LANDS = "bundles/land_changes.job.yml"
LOGS = "bundles/logs.volume.yml"
CHECKPOINTS = "bundles/checkpoints.volume.yml"
BACKLOG = "bundles/backlog.alert.yml"
OVERVIEW = "bundles/session_overview.dashboard.yml"
WAREHOUSE = "bundles/session_queries.sql_warehouse.yml"
DASHBOARD = "bundles/session_overview.lvdash.json"

MISTAKES = [
    ("typo in a field", SESSIONIZE, "max_concurrent_runs: 1", "max_concurent_runs: 1", SESSIONIZE, "max_concurent_runs"),
    ("typo in an enum", SESSIONIZE, "data_security_mode: SINGLE_USER", "data_security_mode: SINGLE_USR", SESSIONIZE, "SINGLE_USR"),
    ("missing task_key", SESSIONIZE, "- task_key: sessionize\n          job_cluster_key", "- job_cluster_key", SESSIONIZE, "task_key"),
    ("duplicate key", SESSIONIZE, "timeout_seconds: 0", "timeout_seconds: 0\n      timeout_seconds: 60", SESSIONIZE, 'duplicate key "timeout_seconds"'),
    ("unknown variable", SESSIONIZE, "${var.workers}", "${var.wrokers}", SESSIONIZE, "${var.wrokers} leads nowhere"),
    ("unknown field of a variable", SESSIONIZE, "${var.notify_webhooks}", "${var.notify_webhooks.ids}", SESSIONIZE, "${var.notify_webhooks.ids} leads nowhere"),
    ("unknown resource", SESSIONIZE, "${resources.schemas.sessions.name}", "${resources.schemas.session.name}", SESSIONIZE, "${resources.schemas.session.name} leads nowhere"),
    ("unknown field of a resource", LANDING, "${resources.schemas.sessions.name}", "${resources.schemas.sessions.nam}", LANDING, "${resources.schemas.sessions.nam} leads nowhere"),
    ("unknown field of bundle", SCHEMA, "${bundle.target}", "${bundle.targt}", SCHEMA, "${bundle.targt} leads nowhere"),
    ("unknown field of workspace", MAIN, "runner: ${workspace.current_user.userName}", "runner: ${workspace.current_user.username}", MAIN, "${workspace.current_user.username} leads nowhere"),
    ("missing file", SESSIONIZE, "../notebooks/02_sessionize.ipynb", "../notebooks/02_sessionise.ipynb", SESSIONIZE, "02_sessionise.ipynb is not there"),
    ("missing dashboard", "bundles/session_overview.dashboard.yml", "session_overview.lvdash.json", "overview.lvdash.json", "bundles/session_overview.dashboard.yml", "overview.lvdash.json is not there"),
    ("wheel that no artifact builds", SESSIONIZE, "../dist/*.whl", "../wheels/*.whl", SESSIONIZE, "wheels/*.whl is what no artifact"),
    ("cron with minutes first", VARIABLES, "default: 0 0/3 * * * ?", "default: 0/3 * * * ?", SESSIONIZE, "'0/3 * * * ?' has 5 fields"),
    ("cron out of range", VARIABLES, "default: 0 20 5 * * ?", "default: 0 20 25 * * ?", MAINTAIN, "'0 20 25 * * ?' is no time"),
    ("unknown time zone", "bundles/no_data.alert.yml", "timezone_id: UTC", "timezone_id: Utopia", "bundles/no_data.alert.yml", "'Utopia' is no time zone"),
    ("wrong parameter name", SESSIONIZE, "- name: session-timeout", "- name: session-time-out", SESSIONIZE, "a generated part is not what the code gives"),
    ("missing parameter", SIMULATE, "            - name: seed\n              default: ${var.simulate_seed}\n", "", SIMULATE, "a generated part is not what the code gives"),
    ("default other than the settings'", VARIABLES, "default: 30s", "default: 45s", VARIABLES, "a generated part is not what the code gives"),
    ("argument with a misspelt parameter", LANDS, "{{job.parameters.trigger}}", "{{job.parameters.triger}}", LANDS, "a generated part is not what the code gives"),
    ("checkpoint and tables shared by two targets", SCHEMA, "name: ${var.schema}_${bundle.target}", "name: ${var.schema}", SCHEMA, "targets staging and prod share the tables (schemas.sessions) catalog.gaming_sessions"),
    ("checkpoint shared by two targets", SESSIONIZE, "default: /Volumes/${resources.volumes.checkpoints.catalog_name}/${resources.volumes.checkpoints.schema_name}/${resources.volumes.checkpoints.name}/sessionize", "default: /Volumes/main/streams/checkpoints", SESSIONIZE, "share the checkpoints of job sessionize /Volumes/main/streams/checkpoints"),
    ("misspelt Spark setting", SESSIONIZE, "spark.sql.shuffle.partitions", "spark.sql.shuffle.partition", SESSIONIZE, "spark_conf spark.sql.shuffle.partition is no setting of Spark"),
    ("missing Spark setting of sessionize", SESSIONIZE, "              spark.scheduler.mode: FAIR\n", "", SESSIONIZE, "spark_conf spark.scheduler.mode must be 'FAIR'"),
    ("missing Spark setting of land_changes", LANDS, "              spark.scheduler.mode: FAIR\n", "", LANDS, "spark_conf spark.scheduler.mode must be 'FAIR'"),
    ("missing Spark setting of workspace_tests", TESTS, "              spark.scheduler.mode: FAIR\n", "", TESTS, "spark_conf spark.scheduler.mode must be 'FAIR'"),
    ("invalid runtime", VARIABLES, "default: 19.x-scala2.13", "default: 18.2-scala", SESSIONIZE, "spark_version '18.2-scala' is not a Databricks Runtime"),
    ("real-time switch without real-time mode", SESSIONIZE, "${var.real_time_enabled}", '"true"', SESSIONIZE, "with mode micro-batch real_time_enabled must be 'false'"),
    ("misspelt real-time switch", SESSIONIZE, "spark.databricks.streaming.realTimeMode.enabled", "spark.databricks.streaming.realTimeMode.enable", SESSIONIZE, "realTimeMode.enable is no setting of Spark"),
    ("unknown cluster", SESSIONIZE, "- job_cluster_key: stream", "- job_cluster_key: streams", SESSIONIZE, "job_cluster_key 'stream' is no cluster of the job"),
    ("second task of the stream", SESSIONIZE, "      tasks:\n", "      tasks:\n        - task_key: again\n          job_cluster_key: stream\n          notebook_task: {notebook_path: ../notebooks/02_sessionize.ipynb}\n", SESSIONIZE, "it must be one notebook_task"),
    ("simulator in prod", SIMULATE, "\n  staging:\n", "\n  prod:\n", MAIN, "target prod: the job simulate would put its players among those who play"),
    ("unknown target", SIMULATE, "\n  staging:\n", "\n  stage:\n", SIMULATE, "target stage: here only the resources of a target of databricks.yml may stand"),
    ("no mail address for failures", MAIN, "      notify_emails:\n        - ${var.on_call}\n", "", MAIN, "target prod: nobody hears of a failed run of sessionize"),
    ("no subscription to alerts", MAIN, "      keep_tables: true\n", "      keep_tables: true\n      alert_subscriptions: []\n", MAIN, "target prod: nobody hears of the alerts"),
    ("default for the subscribers to alerts", VARIABLES, "have no default\n    type: complex\n", "have no default\n    type: complex\n    default: []\n", VARIABLES, "variable alert_subscriptions: no default is right"),
    ("alert that runs for nobody", MAIN, "      alert_subscriptions: []\n", "      alert_subscriptions: []\n      alert_pause_status: UNPAUSED\n", BACKLOG, "it wakes the warehouse for nobody"),
    ("paused alert for players", MAIN, "      alert_pause_status: UNPAUSED\n", "", BACKLOG, "its subscribers would hear nothing"),
    ("alert for a service principal", MAIN, "      alert_subscriptions: []\n", "      alert_subscriptions: [{user_email: 0000-1111}]\n      alert_pause_status: UNPAUSED\n", BACKLOG, "the subscriber {'user_email': '0000-1111'} must be"),
    ("alert with a list and a destination in one", MAIN, "      alert_subscriptions: []\n", "      alert_subscriptions: [{user_email: a@b.example, destination_id: x}]\n      alert_pause_status: UNPAUSED\n", BACKLOG, "must be {user_email ADDRESS}"),
    ("warehouse that stays awake", WAREHOUSE, "auto_stop_mins: 1", "auto_stop_mins: 10", WAREHOUSE, "must be serverless and stop after 1 minute"),
    ("warehouse of another type", WAREHOUSE, "warehouse_type: PRO", "warehouse_type: PROS", WAREHOUSE, "PROS"),
    ("warehouse that the dashboard's viewers cannot use", WAREHOUSE, "group_name: users", "group_name: admins", WAREHOUSE, "permissions must be"),
    ("deploy without a check of on_call", MAIN, "--silent watched wheel", "--silent wheel", MAIN, "target prod: its build must ask for `watched`"),
    ("tables without protection from deletion", MAIN, "      keep_tables: true\n", "", MAIN, "target prod: keep_tables must be true"),
    ("list in an override", MAIN, "          schedule:\n", "          tasks: []\n          schedule:\n", MAIN, "target dev cannot be put together: the override [] is a list"),
    ("value in place of a variable", MAINTAIN, "default: ${var.maintain_input_retention}", "default: 7d", MAINTAIN, "a generated part is not what the code gives"),
    ("unpaused trigger in development", MAIN, "# Development mode pauses the trigger. No pause_status here: an explicit one would override the mode.\n          schedule:", "schedule:\n            pause_status: UNPAUSED", SESSIONIZE, "would survive development mode"),
    ("production without a service principal", MAIN, "    run_as: &principal\n      service_principal_name: ${var.service_principal}\n", "    run_as: &principal {}\n", MAIN, "target staging: run_as must be a service principal"),
    ("folder that everybody can write", MAIN, "root_path: /Workspace/Users/${var.service_principal}/", "root_path: /Workspace/Shared/", MAIN, "/Workspace/Shared can be written by everybody"),
    ("unknown privilege", SCHEMA, "[USE_SCHEMA, SELECT]", "[USE_SCHEMA, SELECTS]", SCHEMA, "SELECTS"),
    ("grant without a principal", SCHEMA, "- principal: ${var.reader}\n          privileges", "- privileges", SCHEMA, "needs a principal and privileges"),
    ("secret in plain text", SIMULATE, "spark_env_vars: ${var.simulate_environment}", "spark_env_vars:\n                  KAFKA_PASSWORD: hunter2", SIMULATE, "KAFKA_PASSWORD must be a reference"),
    ("secret in plain text as an option", VARIABLES, 'on Databricks as secret:SCOPE/KEY\n    default: ""', "on Databricks as secret:SCOPE/KEY\n    default: kafka.sasl.jaas.config=hunter2", SESSIONIZE, "is a secret"),
    ("unused variable", VARIABLES, "  catalog:\n", "  catalogue:\n    description: where\n    default: main\n  catalog:\n", VARIABLES, "variable catalogue is used nowhere"),
    ("widget without its column", DASHBOARD, '"fieldName": "platform"', '"fieldName": "platforms"', DASHBOARD, "shows platforms, which it does not ask for"),
    ("unknown dataset", DASHBOARD, '"datasetName": "latency"', '"datasetName": "latencies"', DASHBOARD, "asks the unknown dataset latencies"),
    ("same key for two kinds", LANDING, "    landing:", "    checkpoints:", LANDING, "the key checkpoints is used in bundles/checkpoints.volume.yml too"),
    ("two concurrent runs", SESSIONIZE, "max_concurrent_runs: 1", "max_concurrent_runs: 2", SESSIONIZE, "max_concurrent_runs must be 1"),
    ("queue for runs", MAINTAIN, "enabled: false", "enabled: true", MAINTAIN, "queue.enabled must be false"),
    ("option without a variable", SESSIONIZE, "default: ${var.sessionize_heartbeat}", "default: 30s", SESSIONIZE, "a generated part is not what the code gives"),
    ("two resources in a file", LANDING, "    landing:", "    arrivals:\n      catalog_name: main\n      schema_name: other\n      name: arrivals\n    landing:", LANDING, "one resource a file, named after it"),
    ("dependency in a continuous job", SESSIONIZE, "- task_key: sessionize\n", "- task_key: sessionize\n          depends_on: [{task_key: sessionize}]\n", SESSIONIZE, "a continuous job allows neither"),
    ("autoscale", SESSIONIZE, "num_workers: ${var.workers}", "autoscale: {min_workers: 1, max_workers: 4}\n            num_workers: ${var.workers}", SESSIONIZE, "no autoscale"),
    ("notebook task without the run id", SESSIONIZE, "job-run-id:", "job-run:", SESSIONIZE, "task sessionize: base_parameters must give job-run-id"),
    ("tests outside the synced folders", MAIN, "    - tests/nutter\n", "", TESTS, "is in no folder that goes into the workspace"),
    ("unknown section", MAIN, "include:", "includes:", MAIN, "includes is not a section of a bundle"),
    ("alert with the wrong comparison", BACKLOG, "GREATER_THAN", "LESS_THAN", BACKLOG, "comparison_operator LESS_THAN must be GREATER_THAN"),
    ("threshold of another alert", BACKLOG, "${var.late_events_seconds}", "${var.no_data_seconds}", BACKLOG, "threshold ${var.no_data_seconds} must be ${var.late_events_seconds}"),
    ("pace that makes an alert go off", VARIABLES, "default: 2s-10s", "default: 2s-1m", SESSIONIZE, "rollup-every 2s-1m is above half of late_events_seconds, 60"),
    ("alert with a fixed schema", BACKLOG, "${resources.schemas.sessions.name}", "gaming_sessions_prod", BACKLOG, "must ask the target's own views, in `catalog`.`gaming_sessions_staging`"),
    ("dashboard with a fixed schema", OVERVIEW, "dataset_schema: ${resources.schemas.sessions.name}", "dataset_schema: gaming_sessions_prod", OVERVIEW, "the target's tables are in ('catalog', 'gaming_sessions_staging')"),
    ("dashboard with a fixed catalog", OVERVIEW, "dataset_catalog: ${resources.schemas.sessions.catalog_name}", "dataset_catalog: games", OVERVIEW, "the target's tables are in ('catalog', 'gaming_sessions_prod')"),
    ("dashboard with the deployer's rights", OVERVIEW, "embed_credentials: false", "embed_credentials: true", OVERVIEW, "embed_credentials must be false"),
    ("paused alert", BACKLOG, "pause_status: ${var.alert_pause_status}", "pause_status: PAUSED", BACKLOG, "its subscribers would hear nothing"),
    ("paused target", MAIN, "    presets:\n      tags:\n        environment: prod\n", "    presets:\n      trigger_pause_status: PAUSED\n", MAIN, "target prod: trigger_pause_status PAUSED"),
    ("paused stream", MAIN, "pause_status: UNPAUSED", "pause_status: PAUSED", SESSIONIZE, "continuous is PAUSED in continuous"),
    ("stream with a daily schedule", VARIABLES, "default: 0 0/3 * * * ?", "default: 0 0 3 * * ?", SESSIONIZE, "leaves 1440 minutes between two starts: at most 10"),
    ("stream with a schedule for weekdays only", VARIABLES, "default: 0 0/3 * * * ?", "default: 0 0/3 * ? * MON-FRI", SESSIONIZE, "minutes between two starts: at most 10"),
    ("instance type of one cloud as the default", VARIABLES, "it has no default\n", "it has no default\n    default: m6gd.xlarge\n", VARIABLES, "variable node_type: no default is right on every cloud"),
    ("alerts with an hourly schedule", VARIABLES, "default: 0 0/15 * * * ?", "default: 0 0 * * * ?", BACKLOG, "leaves 60 minutes between two starts: at most 30"),
    ("stream with a timeout", SESSIONIZE, "timeout_seconds: 0", "timeout_seconds: 3600", SESSIONIZE, "timeout_seconds 3600 must be 0"),
    ("stream with a timeout in one target", MAIN, "        sessionize:\n          schedule:", "        sessionize:\n          timeout_seconds: 3600\n          schedule:", SESSIONIZE, "timeout_seconds 3600 must be 0"),
    ("stream's task with a timeout", SESSIONIZE, "- task_key: sessionize\n", "- task_key: sessionize\n          timeout_seconds: 3600\n", SESSIONIZE, "task sessionize: timeout_seconds must be 0"),
    ("task without the wheel", MAINTAIN, "            - whl: ../dist/*.whl\n", "", MAINTAIN, "task maintain: the wheel is missing"),
    ("package without a pinned version", MAINTAIN, "orjson==", "orjson>=", MAINTAIN, "a generated part is not what the code gives"),
    ("package with another version than in the lock", SESSIONIZE, "orjson==", "orjson==1.", SESSIONIZE, "a generated part is not what the code gives"),
    ("package of the producer without a pinned version", SIMULATE, "confluent-kafka==", "confluent-kafka>=", SIMULATE, "a generated part is not what the code gives"),
    ("package of the tests without a pinned version", TESTS, "nutter==", "nutter>=", TESTS, "a generated part is not what the code gives"),
    ("missing package", TESTS, "            - pypi: {package: orjson==", "            # - pypi: {package: orjson==", TESTS, "a generated part is not what the code gives"),
    ("missing package of the metrics", SESSIONIZE, "            - pypi: {package: prometheus-client==", "            # - pypi: {package: prometheus-client==", SESSIONIZE, "a generated part is not what the code gives"),
    ("shared access mode", SESSIONIZE, "data_security_mode: SINGLE_USER", "data_security_mode: USER_ISOLATION", SESSIONIZE, "data_security_mode must be SINGLE_USER"),
    ("Photon", SESSIONIZE, "runtime_engine: STANDARD", "runtime_engine: PHOTON", SESSIONIZE, "runtime_engine must be STANDARD"),
    ("RocksDB memory without a bound", SESSIONIZE, 'boundedMemoryUsage: "true"', 'boundedMemoryUsage: "false"', SESSIONIZE, "boundedMemoryUsage must be 'true'"),
    ("missing bound on RocksDB memory", SESSIONIZE, "              spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB: ${var.rocksdb_memory_mb}\n", "", SESSIONIZE, "RocksDB would take the machine's memory"),
    ("two tasks with the same name", TESTS, "- task_key: stream", "- task_key: deployment", TESTS, "task_key deployment stands there twice"),
    ("job without write access to its tables", SCHEMA, ", SELECT, MODIFY]", ", SELECT]", SCHEMA, "${var.runner} is granted"),
    ("job without write access to its checkpoint", CHECKPOINTS, "[READ_VOLUME, WRITE_VOLUME]", "[READ_VOLUME]", CHECKPOINTS, "${var.runner} is granted ['READ_VOLUME'], and needs ['READ_VOLUME', 'WRITE_VOLUME']"),
    ("readers with write access", SCHEMA, "- principal: ${var.reader}\n          privileges: [USE_SCHEMA, SELECT]", "- principal: ${var.reader}\n          privileges: [USE_SCHEMA, SELECT, MODIFY]", SCHEMA, "${var.reader} is granted"),
    ("operators without access", SCHEMA, "        - principal: ${var.operator}\n          privileges: [USE_SCHEMA, SELECT]\n", "", SCHEMA, "${var.operator} is granted [], and needs"),
    ("grant to all account users", LANDING, "- principal: ${var.operator}\n", "- principal: account users\n", LANDING, "account users is granted ['READ_VOLUME'], and needs []"),
    ("readers with CAN_MANAGE", MAIN, "level: CAN_VIEW", "level: CAN_MANAGE", MAIN, "${var.readers} has CAN_MANAGE, and needs CAN_VIEW"),
    ("permissions of one resource", OVERVIEW, "      embed_credentials", "      permissions: [{level: CAN_EDIT, group_name: users}]\n      embed_credentials", OVERVIEW, "permissions stand in databricks.yml"),
    ("job that runs as a person", MAINTAIN, "      max_concurrent_runs: 1", "      run_as: {user_name: someone@example.com}\n      max_concurrent_runs: 1", MAINTAIN, "run_as stands in databricks.yml"),
    ("input in the checkpoints", VARIABLES, "must be empty with\n      sessionize_source kafka\n    default: /Volumes/${resources.volumes.landing.catalog_name}/${resources.volumes.landing.schema_name}/${resources.volumes.landing.name}", "must be empty\n    default: /Volumes/${resources.volumes.checkpoints.catalog_name}/${resources.volumes.checkpoints.schema_name}/${resources.volumes.checkpoints.name}", SESSIONIZE, "is in the volume checkpoints"),
    ("input shared by two targets", VARIABLES, "must be empty with\n      sessionize_source kafka\n    default: /Volumes/${resources.volumes.landing.catalog_name}/${resources.volumes.landing.schema_name}/${resources.volumes.landing.name}", "must be empty\n    default: /Volumes/main/games/landing", SESSIONIZE, "targets staging and prod share the input of job sessionize /Volumes/main/games/landing"),
    ("topic shared by two targets", MAIN, "      output_topic: output_sessions_${bundle.target}\n", "      output_topic: output_sessions_others\n", SESSIONIZE, "targets staging and continuous share the topic of job sessionize output_sessions_others"),
    ("topic of prod in another target", MAIN, "      output_topic: output_sessions_${bundle.target}\n      alert_subscriptions: []\n", "      alert_subscriptions: []\n", LANDS, "parameter output-topic is 'output_sessions' in staging: 'output_sessions' must be prod's, and prod's alone"),
    ("another topic in prod than the default", VARIABLES, "every other target has one of its own\n    default: output_sessions", "every other target has one of its own\n    default: changes", LANDS, "parameter output-topic is 'changes' in prod"),
    ("job without mails on failure", MAINTAIN, "      email_notifications:\n        on_failure: ${var.notify_emails}\n", "", MAINTAIN, "email_notifications.on_failure must be ${var.notify_emails}"),
    ("stream without mails on backlog", SESSIONIZE, "        on_streaming_backlog_exceeded: ${var.notify_emails}\n", "", SESSIONIZE, "email_notifications.on_streaming_backlog_exceeded must be"),
    ("volume in another catalog", LANDING, "catalog_name: ${var.catalog}", "catalog_name: games", LANDING, "landing: the volume must be in the target's own schema"),
    ("external volume", CHECKPOINTS, "volume_type: MANAGED", "volume_type: EXTERNAL", CHECKPOINTS, "volume_type must be MANAGED"),
    ("two volumes with the same name", LANDING, "name: landing", "name: checkpoints", LANDING, "the name checkpoints is that of volume checkpoints"),
    ("cluster whose logs end with it", MAINTAIN, "            # generated: logs (make bundle; do not edit)\n            cluster_log_conf:\n", "            cluster_log_config:\n", MAINTAIN, "cluster_log_conf must deliver logs to the volume /Volumes/catalog/gaming_sessions_prod/logs/maintain, not None"),
    ("logs in the volume of the checkpoints", SESSIONIZE, "${resources.volumes.logs.name}/sessionize", "${resources.volumes.checkpoints.name}/logs", SESSIONIZE, "must deliver logs to the volume"),
    ("logs that operators cannot delete", LOGS, "- principal: ${var.operator}\n          privileges: [READ_VOLUME, WRITE_VOLUME]", "- principal: ${var.operator}\n          privileges: [READ_VOLUME]", LOGS, "${var.operator} is granted ['READ_VOLUME'], and needs"),
    ("staging in development mode", MAIN, "  staging:\n    mode: production", "  staging:\n    mode: development", MAIN, "target staging: mode development is dev's alone"),
    ("build with an unknown Makefile target", MAIN, "build: make --silent wheel", "build: make --silent wheels", MAIN, "build make --silent wheels: it must be make with targets of the Makefile"),
]  # fmt: skip


@pytest.fixture
def bundle_copy(tmp_path: Path) -> Path:
    for file in (MAIN, "Makefile"):
        shutil.copy(ROOT / file, tmp_path)
    for folder in ("bundles", "notebooks", "jobs", "tests/nutter"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_copy_without_a_seed_has_no_mistake(bundle_copy: Path) -> None:
    assert findings(bundle_copy) == []


@pytest.mark.parametrize(
    ("file", "correct", "wrong", "named_file", "expected"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_the_checks_find_a_mistake(
    bundle_copy: Path, file: str, correct: str, wrong: str, named_file: str, expected: str
) -> None:
    text = (bundle_copy / file).read_text(encoding="utf-8")
    assert correct in text, "the seed does not fit the bundle any more"
    (bundle_copy / file).write_text(text.replace(correct, wrong), encoding="utf-8")
    found = findings(bundle_copy)
    assert any(finding.file == named_file and expected in finding.mistake for finding in found), "\n".join(
        map(str, found)
    )
