"""Checks of the monitoring: alerts go off, jobs start, failures send mails, the dashboard reads its target's tables."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from croniter import croniter
from croniter.croniter import CroniterError

from sessionization.durations import parse_duration_range
from sessionization.errors import ConfigurationError
from tools.bundle.resolve import Resolved
from tools.bundle.sources import Finding, Sources

_THRESHOLDS = {
    "backlog": "${var.late_events_seconds}",
    "late_heartbeats": "${var.late_heartbeat_intervals}",
    "no_data": "${var.no_data_seconds}",
    "quarantine_share": "${var.quarantine_percent}",
    "stale_heartbeats": "${var.missed_heartbeats}",
    "state_growth": "${var.state_growth_factor}",
}
RESTART_S = 10 * 60
ALERT_S = 30 * 60
_MAIL_FIELDS = {"on_failure"}
_STREAM_MAIL_FIELDS = _MAIL_FIELDS | {"on_streaming_backlog_exceeded", "on_duration_warning_threshold_exceeded"}
_MONDAY = datetime(2026, 11, 23, tzinfo=UTC)
_MAX_STARTS = 10_000
_STREAM = "sessionize"
_PACES = ("archive-every", "rollup-every")


def watch_findings(sources: Sources, target: Resolved) -> Iterator[Finding]:
    schema = target.resources.get("schemas", {}).get("sessions", {})
    own_schema = (schema.get("catalog_name"), schema.get("name"))
    unresolved = {(kind, key): fields for _file, kind, key, fields in sources.resources(target.target)}
    for key, alert in target.resources.get("alerts", {}).items():
        threshold_mistakes = _threshold(key, unresolved.get(("alerts", key), {}))
        for mistake in (*_alert(alert, own_schema), *hearing_mistakes(alert), *threshold_mistakes):
            yield Finding(sources.file_of("alerts", key), f"{key}: {mistake}")
    for key, warehouse in target.resources.get("sql_warehouses", {}).items():
        yield from (Finding(sources.file_of("sql_warehouses", key), f"{key}: {m}") for m in _warehouse(warehouse))
    for mistake in _pace(target):
        yield Finding(sources.file_of("jobs", _STREAM), f"{_STREAM}: {mistake}")
    for key, dashboard in target.resources.get("dashboards", {}).items():
        for mistake in _dashboard(dashboard, own_schema):
            yield Finding(sources.file_of("dashboards", key), f"{key}: {mistake}")
    for key, job in target.resources.get("jobs", {}).items():
        for mistake in (
            *_mail_mistakes(key, unresolved.get(("jobs", key), {})),
            *(_stream(job) if key == _STREAM else ()),
        ):
            yield Finding(sources.file_of("jobs", key), f"{key}: {mistake}")
    if target.settings.get("mode") != "development":
        yield from _paused(sources, target)


@cache
def longest_pause_s(expression: str) -> float:
    """The longest time between two starts in eight days, or in the first 10,000 starts; 0 for an invalid expression."""
    try:
        times = croniter(expression, _MONDAY, ret_type=datetime, second_at_beginning=True)
        previous, longest = _MONDAY, timedelta()
        for _ in range(_MAX_STARTS):
            following = times.get_next(datetime)
            longest, previous = max(longest, following - previous), following
            if following - _MONDAY > timedelta(days=8):
                break
    except CroniterError:
        return 0
    return longest.total_seconds()


def _alert(alert: dict[str, Any], own_schema: tuple[Any, Any]) -> Iterator[str]:
    operator = alert.get("evaluation", {}).get("comparison_operator")
    if operator != "GREATER_THAN":
        yield f"comparison_operator {operator} must be GREATER_THAN: it would go off only while all is well"
    if "`{}`.`{}`.".format(*own_schema) not in alert.get("query_text", ""):
        yield f"query_text must ask the target's own views, in `{own_schema[0]}`.`{own_schema[1]}`"
    yield from interval_mistakes("quartz_cron_schedule", alert.get("schedule", {}), ALERT_S)


def hearing_mistakes(alert: dict[str, Any]) -> Iterator[str]:
    """Check that an alert runs if it has subscribers, and only then, and that each can be one."""
    subscribers = alert.get("evaluation", {}).get("notification", {}).get("subscriptions") or []
    is_paused = alert.get("schedule", {}).get("pause_status") == "PAUSED"
    if subscribers and is_paused:
        yield "its subscribers would hear nothing, for it is paused: set alert_pause_status to UNPAUSED"
    if not subscribers and not is_paused:
        yield "it wakes the warehouse for nobody: set alert_subscriptions, or alert_pause_status to PAUSED"
    for subscriber in subscribers:
        address = str(subscriber.get("user_email", ""))
        if ("@" in address) == bool(subscriber.get("destination_id")):
            yield (
                f"the subscriber {subscriber} must be {{user_email ADDRESS}} of a user of the workspace or "
                "{destination_id ID}, in alert_subscriptions"
            )


def _warehouse(warehouse: dict[str, Any]) -> Iterator[str]:
    if warehouse.get("enable_serverless_compute") is not True or warehouse.get("auto_stop_mins") != 1:
        yield "it must be serverless and stop after 1 minute: alerts would keep it awake"


def _threshold_value(alert: dict[str, Any]) -> Any:
    return alert.get("evaluation", {}).get("threshold", {}).get("value", {}).get("double_value")


def _threshold(key: str, unresolved: dict[str, Any]) -> Iterator[str]:
    threshold = _threshold_value(unresolved)
    if threshold != _THRESHOLDS.get(key):
        yield f"threshold {threshold} must be {_THRESHOLDS.get(key, 'named in tools/bundle/watching.py')}"


def _pace(target: Resolved) -> Iterator[str]:
    """A query that rests as long as it may must not make the alert `backlog` go off.

    An event waits for the rest, and then for the micro-batch, which may take as long.
    """
    job, alert = (target.resources.get(kind, {}).get(key) for kind, key in (("jobs", _STREAM), ("alerts", "backlog")))
    if job is None or alert is None:
        return
    limit_s = _threshold_value(alert)
    paces = {parameter["name"]: parameter["default"] for parameter in job.get("parameters", [])}
    for name in _PACES if limit_s is not None else ():
        try:
            longest_ms = parse_duration_range(paces[name]).longest_ms
        except (KeyError, ConfigurationError):  # another check reports it
            continue
        if 2 * longest_ms > 1_000 * float(limit_s):
            yield f"{name} {paces[name]} is above half of late_events_seconds, {float(limit_s):g}"


def _dashboard(dashboard: dict[str, Any], own_schema: tuple[Any, Any]) -> Iterator[str]:
    given = (dashboard.get("dataset_catalog"), dashboard.get("dataset_schema"))
    if given != own_schema:
        yield f"dataset_catalog and dataset_schema are {given}: the target's tables are in {own_schema}"
    if dashboard.get("embed_credentials") is not False:
        yield "embed_credentials must be false: every viewer would read with the deployer's rights"


def _stream(job: dict[str, Any]) -> Iterator[str]:
    if job.get("timeout_seconds") != 0:
        yield f"timeout_seconds {job.get('timeout_seconds')} must be 0: a stream has no end"
    for task in job.get("tasks", []):
        if task.get("timeout_seconds", 0) != 0:
            yield f"task {task.get('task_key')}: timeout_seconds must be 0: a stream has no end"
    if "schedule" in job:
        yield from interval_mistakes("quartz_cron_expression", job["schedule"], RESTART_S)


def interval_mistakes(field: str, schedule: dict[str, Any], most_s: int) -> Iterator[str]:
    pause_s = longest_pause_s(str(schedule.get(field, "")))
    if pause_s > most_s:
        yield f"{field} {schedule[field]!r} leaves {pause_s / 60:g} minutes between two starts: at most {most_s // 60}"


def _mail_mistakes(key: str, unresolved: dict[str, Any]) -> Iterator[str]:
    """Check the unresolved fields, because dev's list is empty."""
    for field in sorted(_STREAM_MAIL_FIELDS if key == _STREAM else _MAIL_FIELDS):
        if unresolved.get("email_notifications", {}).get(field) != "${var.notify_emails}":
            yield f"email_notifications.{field} must be ${{var.notify_emails}}: nobody would hear of it"


def _paused(sources: Sources, target: Resolved) -> Iterator[Finding]:
    if target.settings.get("presets", {}).get("trigger_pause_status") == "PAUSED":
        yield Finding("databricks.yml", f"target {target.target}: trigger_pause_status PAUSED, so nothing would start")
    for key, job in target.resources.get("jobs", {}).items():
        for trigger in ("schedule", "continuous", "trigger"):
            if job.get(trigger, {}).get("pause_status") == "PAUSED":
                yield Finding(
                    sources.file_of("jobs", key), f"{key}: {trigger} is PAUSED in {target.target}: it would never start"
                )
