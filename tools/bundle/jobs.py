"""Checks of the jobs: one run at a time, a cluster of its own, a valid schedule."""

import re
import zoneinfo
from collections.abc import Iterator
from functools import cache
from typing import Any

from croniter import croniter

from sessionization.spark.engine.job_conf import DATABRICKS_CONF
from sessionization.spark.output.real_time import SWITCH
from tools.bundle.resolve import Resolved
from tools.bundle.sources import Finding, Sources
from tools.bundle.spark_keys import known_spark_keys

_STREAM = "sessionize"
_JOBS_WITH_STREAM_SETTINGS = {
    "backfill",
    "land_changes",
    "preflight",
    "rescale_state",
    "workspace_tests",
    _STREAM,
}
"""Jobs that check the settings of the cluster's Spark session; the others run on any compute."""
_MEMORY_IS_BOUNDED = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
_MEMORY_BOUND_MB = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"
_CLOUDS = ("aws", "azure", "gcp")
_AWS_NODE_TYPE = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
"""As m6gd.xlarge; Azure's are like Standard_D4ads_v5, Google's like n2-highmem-4."""
_QUARTZ_DAY_FIELDS = slice(3, 6, 2)
_DAY_OF_WEEK = 5
_time_zones = cache(zoneinfo.available_timezones)  # reads a folder of hundreds of files


def job_findings(sources: Sources, target: Resolved) -> Iterator[Finding]:
    for key, job in target.resources.get("jobs", {}).items():
        file = sources.file_of("jobs", key)
        for mistake in (
            *_one_at_a_time(job),
            *_compute(job),
            *_logs(key, job, target),
            *_trigger(job),
            *(_spark_conf(job) if key in _JOBS_WITH_STREAM_SETTINGS else ()),
            *(_stream(job, target) if key == _STREAM else ()),
        ):
            yield Finding(file, f"{key}: {mistake}")
    for key, alert in target.resources.get("alerts", {}).items():
        for mistake in _cron(alert.get("schedule", {}), "quartz_cron_schedule"):
            yield Finding(sources.file_of("alerts", key), f"{key}: {mistake}")


def quartz_mistake(expression: str) -> str | None:
    """The mistake in a Quartz cron expression, or None. croniter knows Quartz's fields, but not its rules for days."""
    fields = expression.split()
    if len(fields) not in {6, 7}:
        return f"cron {expression!r} has {len(fields)} fields: Quartz wants seconds first, six or seven in all"
    if fields[_QUARTZ_DAY_FIELDS].count("?") != 1:
        return f"cron {expression!r}: Quartz wants ? for the day of month or for the day of week, and for one only"
    if any(character.isdigit() for character in fields[_DAY_OF_WEEK].partition("#")[0]):
        return f"cron {expression!r}: write days of the week by name, for Quartz counts them from Sunday as 1"
    if not croniter.is_valid(expression, second_at_beginning=True):
        return f"cron {expression!r} is no time"
    return None


def _one_at_a_time(job: dict[str, Any]) -> Iterator[str]:
    if job.get("max_concurrent_runs") != 1:
        yield "max_concurrent_runs must be 1: two runs would use one checkpoint, and development allows four"
    if job.get("queue", {}).get("enabled") is not False:
        yield "queue.enabled must be false: a run that waits starts when nobody expects it"


def _compute(job: dict[str, Any]) -> Iterator[str]:
    clusters = {
        cluster.get("job_cluster_key"): cluster.get("new_cluster", {}) for cluster in job.get("job_clusters", [])
    }
    yield from _tasks(job.get("tasks", []), set(clusters))
    for name, cluster in clusters.items():
        yield from (f"cluster {name}: {mistake}" for mistake in _cluster(cluster))


def _tasks(tasks: list[dict[str, Any]], clusters: set[str]) -> Iterator[str]:
    names = [task.get("task_key") for task in tasks]
    for repeated in sorted({str(name) for name in names if names.count(name) > 1}):
        yield f"task_key {repeated} stands there twice"
    for task in tasks:
        name = task.get("task_key")
        if not any("whl" in library for library in task.get("libraries", [])):
            yield f"task {name}: the wheel is missing in its libraries, and with it the code that it runs"
        if task.get("job_cluster_key") not in clusters:
            yield f"task {name}: job_cluster_key {task.get('job_cluster_key')!r} is no cluster of the job"
        for needed in task.get("depends_on", []):
            if needed.get("task_key") not in names:
                yield f"task {name} depends on {needed.get('task_key')!r}, which the job does not have"


def _cluster(cluster: dict[str, Any]) -> Iterator[str]:
    if cluster.get("data_security_mode") != "SINGLE_USER":
        yield "data_security_mode must be SINGLE_USER: the sinks live in the driver's own Python process"
    if cluster.get("runtime_engine") != "STANDARD":
        yield "runtime_engine must be STANDARD: Photon costs twice as much and speeds nothing up here"
    if "autoscale" in cluster:
        yield "no autoscale, for state does not move to new workers"
    for key in cluster.get("spark_conf", {}):
        if key not in known_spark_keys() and key != SWITCH:
            yield f"spark_conf {key} is no setting of Spark"
    for variable, value in cluster.get("spark_env_vars", {}).items():
        is_secret = any(part in variable.lower() for part in ("password", "secret", "jaas", "token"))
        if is_secret and not str(value).startswith("{{secrets/"):
            yield f"{variable} must be a reference, {{{{secrets/SCOPE/KEY}}}}"


def _logs(key: str, job: dict[str, Any], target: Resolved) -> Iterator[str]:
    """Check that each cluster's logs outlive it, in a folder of the target's volume `logs`."""
    expected = f"{_volume_folder(target, 'logs')}/{key}"
    for cluster in job.get("job_clusters", []):
        given = cluster.get("new_cluster", {}).get("cluster_log_conf", {}).get("volumes", {}).get("destination")
        if given != expected:
            yield f"cluster_log_conf must deliver logs to the volume {expected}, not {given}: they end with the cluster"


def _volume_folder(target: Resolved, key: str) -> str:
    volume = target.resources.get("volumes", {}).get(key, {})
    return "/Volumes/" + "/".join(str(volume.get(part)) for part in ("catalog_name", "schema_name", "name"))


def _spark_conf(job: dict[str, Any]) -> Iterator[str]:
    for cluster in job.get("job_clusters", []):
        conf = cluster.get("new_cluster", {}).get("spark_conf", {})
        for name, value in DATABRICKS_CONF.items():
            if conf.get(name) != value:
                yield f"spark_conf {name} must be {value!r}, not {conf.get(name)!r}: the job checks it at its start"


def _trigger(job: dict[str, Any]) -> Iterator[str]:
    if "schedule" in job:
        yield from _cron(job["schedule"], "quartz_cron_expression")
    if "continuous" in job and any(task.get("depends_on") or task.get("max_retries") for task in job.get("tasks", [])):
        yield "a continuous job allows neither dependencies nor retries of tasks"


def _cron(schedule: dict[str, Any], field: str) -> Iterator[str]:
    mistake = quartz_mistake(str(schedule.get(field, "")))
    if mistake:
        yield mistake
    if schedule.get("timezone_id") not in _time_zones():
        yield f"timezone_id {schedule.get('timezone_id')!r} is no time zone"


def entry_point_mistakes(job: dict[str, Any]) -> Iterator[str]:
    """Check that the stream has one task, a notebook: two tasks would share the checkpoint."""
    kinds = [kind for task in job.get("tasks", []) for kind in task if kind.endswith("_task")]
    if kinds != ["notebook_task"]:
        yield f"the tasks are {kinds}: it must be one notebook_task"


def real_time_mistakes(job: dict[str, Any]) -> Iterator[str]:
    """Check that the option and the cluster's switch agree.

    The job refuses the option without the switch, and the switch alone has no use.
    """
    mode = _mode(job)
    required = "true" if mode == "real-time" else "false"
    for cluster in job.get("job_clusters", []):
        given = cluster.get("new_cluster", {}).get("spark_conf", {}).get(SWITCH)
        if given != required:
            yield f"spark_conf {SWITCH} is {given!r}, but with mode {mode} real_time_enabled must be {required!r}"


def availability_mistakes(job: dict[str, Any]) -> Iterator[str]:
    """Check that the workers of a stream in mode real-time are on-demand, as Databricks requires.

    Without attributes AWS uses spot workers; Azure and Google Cloud do not. A policy or a pool may decide instead.
    """
    if _mode(job) != "real-time":
        return
    for cluster in job.get("job_clusters", []):
        nodes = cluster.get("new_cluster", {})
        given = [str((nodes.get(f"{cloud}_attributes") or {}).get("availability", "")) for cloud in _CLOUDS]
        found = next(filter(None, given), "")
        is_aws = _AWS_NODE_TYPE.fullmatch(str(nodes.get("node_type_id") or "")) is not None
        is_decided_elsewhere = bool(nodes.get("policy_id") or nodes.get("instance_pool_id"))
        if "SPOT" in found or "PREEMPTIBLE" in found or (is_aws and not found and not is_decided_elsewhere):
            instead = f", not {found}" if found else " (on AWS the default is spot)"
            yield (
                f"cluster {cluster.get('job_cluster_key')}: with mode real-time its workers must be on-demand"
                f"{instead}: set node_attributes, a cluster_policy or an instance_pool"
            )


def _mode(job: dict[str, Any]) -> str:
    """The default of the job's parameter `mode`; empty where it has none."""
    return next((str(p.get("default")) for p in job.get("parameters", []) if p.get("name") == "mode"), "")


def _inputs_in_checkpoints(job: dict[str, Any], target: Resolved) -> Iterator[tuple[str, str]]:
    folder = _volume_folder(target, "checkpoints")
    for parameter in job.get("parameters", []):
        value = str(parameter.get("default"))
        if parameter.get("name") == "input" and f"{value}/".startswith(f"{folder}/"):
            yield value, folder


def _stream(job: dict[str, Any], target: Resolved) -> Iterator[str]:
    if ("schedule" in job) == ("continuous" in job):
        yield f"target {target.target} must give it a schedule or make it continuous, one of the two"
    yield from entry_point_mistakes(job)
    yield from real_time_mistakes(job)
    for cluster in job.get("job_clusters", []):
        conf = cluster.get("new_cluster", {}).get("spark_conf", {})
        if conf.get(_MEMORY_IS_BOUNDED) != "true" or not conf.get(_MEMORY_BOUND_MB):
            settings = f"{_MEMORY_IS_BOUNDED} must be 'true', and {_MEMORY_BOUND_MB} be there"
            yield f"spark_conf {settings}: RocksDB would take the machine's memory"
    for value, folder in _inputs_in_checkpoints(job, target):
        yield f"input {value} is in the volume checkpoints ({folder}): what is cleaned as input would be the checkpoint"
    is_development = target.settings.get("mode") == "development"
    pause_status = job.get("schedule", {}).get("pause_status") or job.get("continuous", {}).get("pause_status")
    if is_development and pause_status:
        yield f"pause_status {pause_status} would survive development mode, which pauses triggers: leave it out"
