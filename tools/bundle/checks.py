"""Mistakes in a target that `databricks bundle validate --strict` accepts."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from croniter import croniter
from croniter.croniter import CroniterError

from sessionization.command_line.parser import read_settings
from sessionization.command_line.widgets import JOB_RUN_ID
from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import LandChangesSettings, MaintainSettings
from sessionization.serving.serving_settings import ServingSettings
from sessionization.settings.sessionize_settings import RealTimePace, SessionizeSettings, TopicSink
from sessionization.spark.engine.job_conf import DATABRICKS_CONF
from sessionization.spark.output.real_time import SWITCH
from sessionization.yaml_file import read_yaml_file
from tools.bundle.target import FOR_PLAYERS, ROOT

RESTART_S, ALERT_S = 10 * 60, 30 * 60
_MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"
_SECRETS = ("password", "secret", "jaas", "token")
_READS, _WRITES = {"READ_VOLUME"}, {"READ_VOLUME", "WRITE_VOLUME"}
_GRANTS = {
    "sessions": ({"USE_SCHEMA", "CREATE_TABLE", "CREATE_MODEL", "SELECT", "MODIFY"}, {"USE_SCHEMA", "SELECT"}),
    "checkpoints": (_WRITES, _WRITES),
    "landing": (_WRITES, _READS),
    "logs": (_WRITES, _WRITES),
}
"""The most that the jobs, and any others but the collectors, may have of the schema and of the volumes."""


def mistakes(target: dict[str, Any], settings_folder: Path = ROOT / "bundles/settings") -> Iterator[str]:
    """Find the mistakes in a target, as `read_target` returns it, and in its settings file; each is one line."""
    resources = target["resources"]
    for key, job in resources["jobs"].items():
        yield from (f"job {key}: {mistake}" for mistake in _job(job, _home(target)))
    stream = resources["jobs"]["sessionize"]
    is_development = target["bundle"].get("mode") == "development"
    yield from (f"job sessionize: {mistake}" for mistake in _stream(stream, is_development=is_development))
    yield from _settings(target, settings_folder / f"{target['bundle']['target']}.yml")
    for key, alert in resources["alerts"].items():
        yield from (f"alert {key}: {mistake}" for mistake in _alert(alert, _schema(target)))
    yield from _storage(target)
    yield from _monitoring(resources, _schema(target))
    if not is_development:
        yield from _production(target)
    if target["bundle"]["target"] in FOR_PLAYERS:
        yield from _players(target)


def shared(targets: list[dict[str, Any]], settings_folder: Path = ROOT / "bundles/settings") -> Iterator[str]:
    """Find what two targets share: each would write into the other's tables."""
    seen: dict[Any, str] = {}
    for target in targets:
        name = target["bundle"]["target"]
        settings = _read(SessionizeSettings, settings_folder / f"{name}.yml", target)
        topic = (settings.kafka.bootstrap_servers, settings.output_topic) if settings.sink.type == "kafka" else None
        for place in (_schema(target), target["workspace"].get("root_path"), topic, settings.state.checkpoints):
            if place is not None and seen.setdefault(place, name) != name:
                yield f"targets {seen[place]} and {name} share {place}"


def _schema(target: dict[str, Any]) -> tuple[str, str]:
    schema = target["resources"]["schemas"]["sessions"]
    return schema["catalog_name"], schema["name"]


def _home(target: dict[str, Any]) -> str:
    return "/Volumes/{}/{}".format(*_schema(target))


def _read(model: Any, file: Path, target: dict[str, Any]) -> Any:
    catalog, schema = _schema(target)
    return read_settings(model, [f"--settings={file}", f"--catalog={catalog}", f"--schema={schema}"])


def _settings(target: dict[str, Any], file: Path) -> Iterator[str]:
    """Check the settings file, and what of the cluster and of the alerts has to fit it."""
    try:
        settings, maintain = _read(SessionizeSettings, file, target), _read(MaintainSettings, file, target)
        if isinstance(settings.sink, TopicSink):
            _read(LandChangesSettings, file, target)
        if ServingSettings.own_section in (read_yaml_file(file, file.name, "docs/settings.md") or {}):
            _read(ServingSettings, file, target)
    except ConfigurationError as error:
        yield str(error)
        return
    resources, home = target["resources"], _home(target)
    folder = str(settings.input_folder or "")
    if folder.startswith(f"{home}/checkpoints"):
        yield f"{file.name}: source.input is in the volume checkpoints: cleaning the input would delete the checkpoint"
    elif folder and maintain.input_retention_ms is not None and not folder.startswith(f"{home}/"):
        yield f"{file.name}: maintain would delete files of {folder}, which others may read: leave input_retention out"
    cluster = resources["jobs"]["sessionize"]["job_clusters"][0]["new_cluster"]
    is_real_time = isinstance(settings.pace, RealTimePace)
    if cluster["spark_conf"].get(SWITCH) != str(is_real_time).lower():
        yield f"with pace.mode {settings.pace.mode} spark_conf {SWITCH} must be {str(is_real_time).lower()!r}"
    given = str((cluster.get("aws_attributes") or {}).get("availability", "SPOT"))
    is_aws, is_decided = (
        "." in str(cluster["node_type_id"]),
        cluster.get("policy_id") or cluster.get("instance_pool_id"),
    )
    if is_real_time and is_aws and not is_decided and "SPOT" in given:
        yield "with pace.mode real-time the workers must be on-demand: add aws_attributes in clusters.yml"
    for key in ("late_heartbeats", "stale_heartbeats"):
        if f" / {settings.rules.heartbeat_ms}" not in resources["alerts"][key]["query_text"]:
            yield f"alert {key}: its query must divide by rules.heartbeat, {settings.rules.heartbeat_ms} ms"
    backlog_s = float(resources["alerts"]["backlog"]["evaluation"]["threshold"]["value"]["double_value"])
    for name in ("archive_every", "rollup_every"):
        # An event waits for the rest of a query, and then for its micro-batch, which may take as long.
        if 2 * getattr(settings.pace, name).longest_ms > 1_000 * backlog_s:
            yield f"{file.name}: pace.{name} is above half of the threshold of the alert backlog"


def _job(job: dict[str, Any], home: str) -> Iterator[str]:
    if job.get("max_concurrent_runs") != 1 or job.get("queue", {}).get("enabled") is not False:
        yield "max_concurrent_runs must be 1 without a queue: two runs would use one checkpoint"
    if "on_failure" not in job.get("email_notifications", {}):
        yield "email_notifications.on_failure is missing: nobody would hear of it"
    for task in job["tasks"]:
        if not any("whl" in library for library in task.get("libraries", [])):
            yield f"task {task['task_key']}: the wheel is missing in its libraries, and with it the code that it runs"
    for cluster in (entry["new_cluster"] for entry in job["job_clusters"]):
        if cluster.get("data_security_mode") != "SINGLE_USER":
            yield "data_security_mode must be SINGLE_USER: the sinks live in the driver's own Python process"
        if cluster.get("runtime_engine") != "STANDARD" or "autoscale" in cluster:
            yield "no Photon, which costs twice as much, and no autoscale, for state does not move to new workers"
        for name, value in DATABRICKS_CONF.items():
            if (given := cluster.get("spark_conf", {}).get(name)) != value:
                yield f"spark_conf {name} must be {value!r}, not {given!r}: the results depend on it"
        for name, value in cluster.get("spark_env_vars", {}).items():
            if any(part in name.lower() for part in _SECRETS) and not str(value).startswith("{{secrets/"):
                yield f"{name} must be a reference, {{{{secrets/SCOPE/KEY}}}}"
        logs = cluster.get("cluster_log_conf", {}).get("volumes", {}).get("destination", "")
        if not logs.startswith(f"{home}/logs/"):
            yield "cluster_log_conf must deliver logs to the volume logs: they end with the cluster"


def _stream(job: dict[str, Any], *, is_development: bool) -> Iterator[str]:
    kinds = [kind for task in job["tasks"] for kind in task if kind.endswith("_task")]
    if kinds != ["notebook_task"]:
        yield f"the tasks are {kinds}: one notebook_task, for two would share the checkpoint"
    elif job["tasks"][0]["notebook_task"].get("base_parameters", {}).get(JOB_RUN_ID) != "{{job.run_id}}":
        yield f"base_parameters must give {JOB_RUN_ID}: without it the notebook stops after minutes"
    if job.get("timeout_seconds") or any(task.get("timeout_seconds") for task in job["tasks"]):
        yield "timeout_seconds must be 0: a stream has no end"
    triggers = [job[name] for name in ("schedule", "continuous") if name in job]
    if len(triggers) != 1:
        yield "it needs a schedule or continuous, one of the two"
    for trigger in triggers:
        paused = trigger.get("pause_status")
        if is_development and paused == "UNPAUSED":
            yield "pause_status UNPAUSED would survive development mode, which pauses triggers: leave it out"
        if not is_development and paused == "PAUSED":
            yield "its trigger is paused: it would never start"
        if "quartz_cron_expression" in trigger:
            yield from _interval(trigger["quartz_cron_expression"], RESTART_S)
    if "continuous" in job and any(task.get("max_retries") for task in job["tasks"]):
        yield "a continuous job allows no retries of tasks"
    conf = job["job_clusters"][0]["new_cluster"]["spark_conf"]
    if conf.get(f"{_ROCKSDB}.boundedMemoryUsage") != "true" or not conf.get(f"{_ROCKSDB}.maxMemoryUsageMB"):
        yield f"{_ROCKSDB}.boundedMemoryUsage must be true, with a bound: RocksDB would take the machine's memory"


def _interval(expression: str, most_s: int) -> Iterator[str]:
    """Check that a Quartz cron expression is one, and does not leave too long a time between two starts."""
    fields = expression.split()
    try:
        if len(fields) not in {6, 7} or (fields[3], fields[5]).count("?") != 1:
            raise CroniterError  # noqa: TRY301 - Quartz wants seconds first, and ? for one of the days
        times = croniter(expression, _MONDAY, ret_type=datetime, second_at_beginning=True)
        starts = [_MONDAY]
        while starts[-1] - _MONDAY < timedelta(days=8):
            starts.append(times.get_next(datetime))
    except CroniterError:
        yield f"cron {expression!r} is none: Quartz wants seconds first, six or seven fields, and ? for one of the days"
        return
    longest_s = max((later - earlier).total_seconds() for earlier, later in pairwise(starts))
    if longest_s > most_s:
        yield f"cron {expression!r} leaves {longest_s / 60:g} minutes between two starts: at most {most_s // 60}"


def _alert(alert: dict[str, Any], schema: tuple[str, str]) -> Iterator[str]:
    if alert["evaluation"].get("comparison_operator") != "GREATER_THAN":
        yield "comparison_operator must be GREATER_THAN: it would go off only while all is well"
    if "`{}`.`{}`.".format(*schema) not in alert["query_text"]:
        yield "query_text must ask the target's own views"
    yield from _interval(alert["schedule"]["quartz_cron_schedule"], ALERT_S)
    subscribers = alert["evaluation"].get("notification", {}).get("subscriptions") or []
    if bool(subscribers) is (alert["schedule"].get("pause_status") == "PAUSED"):
        yield "with subscribers alert_pause_status must be UNPAUSED, without them PAUSED: it would wake the warehouse"
    for subscriber in subscribers:
        if ("@" in str(subscriber.get("user_email", ""))) == bool(subscriber.get("destination_id")):
            yield f"the subscriber {subscriber} must be {{user_email ADDRESS}} or {{destination_id ID}}"


def _storage(target: dict[str, Any]) -> Iterator[str]:
    """Check volumes and rights: each principal has what it needs, and nobody else writes."""
    resources = target["resources"]
    for key, volume in resources["volumes"].items():
        if (volume["catalog_name"], volume["schema_name"]) != _schema(target) or volume["name"] != key:
            yield f"volume {key}: it must be in the target's own schema, and be named {key}, where the jobs look"
        if volume.get("volume_type") != "MANAGED":
            yield f"volume {key}: volume_type must be MANAGED: another target could name the same storage"
    for key, thing in (resources["schemas"] | resources["volumes"]).items():
        of_jobs, of_others = _GRANTS[key]
        first, *others = [set(grant["privileges"]) for grant in thing.get("grants", [])] or [set()]
        collectors = of_jobs if key == "landing" else set()
        if first != of_jobs or any(not (given <= of_others or given <= collectors) for given in others):
            yield f"{key}: the jobs need {sorted(of_jobs)}, and others {sorted(of_others)} at most"


def _monitoring(resources: dict[str, Any], schema: tuple[str, str]) -> Iterator[str]:
    for key, warehouse in resources["sql_warehouses"].items():
        if warehouse.get("enable_serverless_compute") is not True or warehouse.get("auto_stop_mins") != 1:
            yield f"warehouse {key}: it must be serverless and stop after 1 minute: alerts would keep it awake"
        if {"level": "CAN_USE", "group_name": "users"} not in warehouse.get("permissions", []):
            yield f"warehouse {key}: users need CAN_USE, or the dashboard stays empty"
    for key, dashboard in resources["dashboards"].items():
        if (dashboard.get("dataset_catalog"), dashboard.get("dataset_schema")) != schema:
            yield f"dashboard {key}: dataset_catalog and dataset_schema must be the target's"
        if dashboard.get("embed_credentials") is not False:
            yield f"dashboard {key}: embed_credentials must be false: viewers would read with the deployer's rights"


def _production(target: dict[str, Any]) -> Iterator[str]:
    principal = target.get("run_as", {}).get("service_principal_name")
    if not principal:
        yield "run_as must be a service principal: a person's job ends with the person's account"
    if not str(target["workspace"].get("root_path", "")).startswith(f"/Workspace/Users/{principal}/"):
        yield "workspace.root_path must be in the service principal's folder: others could write to it"
    if (target.get("presets") or {}).get("trigger_pause_status") == "PAUSED":
        yield "trigger_pause_status PAUSED, so nothing would start"


def _players(target: dict[str, Any]) -> Iterator[str]:
    """Check what protects the players' tables, and who hears of failures."""
    resources = target["resources"]
    if "simulate" in resources["jobs"]:
        yield "the job simulate would put its players among those who play"
    for key, job in resources["jobs"].items():
        if not job.get("email_notifications", {}).get("on_failure"):
            yield f"nobody hears of a failed run of {key}"
    if not all(alert["evaluation"]["notification"].get("subscriptions") for alert in resources["alerts"].values()):
        yield "nobody hears of the alerts: set alert_subscriptions"
    for thing in (*resources["schemas"].values(), *resources["volumes"].values()):
        if (thing.get("lifecycle") or {}).get("prevent_destroy") is not True:
            yield f"keep_tables must be true: one wrong command would delete {thing['name']}"
    if "branch" not in target["bundle"].get("git", {}):
        yield "git.branch is missing: any branch could be deployed"
    if not any("watched" in artifact.get("build", "") for artifact in target["artifacts"].values()):
        yield "its build must ask for `watched`, which refuses to deploy where on_call is no address"
