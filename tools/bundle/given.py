"""Checks of a resolved target: values that the CLI accepts silently and that a job would refuse later."""

from collections.abc import Iterator
from typing import Any

from tools.bundle.job_options import JOBS
from tools.bundle.jobs import availability_mistakes, entry_point_mistakes, quartz_mistake, real_time_mistakes
from tools.bundle.options import value_mistakes
from tools.bundle.resolve import Resolved
from tools.bundle.targets import FOR_PLAYERS, for_players_mistakes
from tools.bundle.watching import ALERT_S, RESTART_S, hearing_mistakes, interval_mistakes

_DAILY_JOBS = {"maintain", "predict_remaining"}
_OWN_LANDING_VOLUME = "/Volumes/${resources.volumes.landing."


def given_mistakes(bundle: dict[str, Any]) -> list[str]:
    """The mistakes in the output of `databricks bundle validate -o json`, with unresolved references to resources."""
    target = bundle["bundle"]["target"]
    resolved = Resolved(target, bundle["resources"], {"artifacts": bundle.get("artifacts", {})})
    found = [f"{key}: {mistake}" for key, mistake in _mistakes(resolved)]
    if target in FOR_PLAYERS:
        found += [f"{target}: {mistake}" for mistake in for_players_mistakes(resolved)]
    return found


def _mistakes(target: Resolved) -> Iterator[tuple[str, str]]:
    jobs = target.resources.get("jobs", {})
    for key, job in jobs.items():
        yield from ((key, mistake) for mistake in value_mistakes(key, job) if key in JOBS)
        yield from _schedule_mistakes(key, job.get("schedule"), "quartz_cron_expression", RESTART_S)
    alerts = target.resources.get("alerts", {})
    for key, alert in alerts.items():
        yield from _schedule_mistakes(key, alert.get("schedule"), "quartz_cron_schedule", ALERT_S)
    # They share their subscribers: each mistake once.
    yield from dict.fromkeys(("alerts", mistake) for alert in alerts.values() for mistake in hearing_mistakes(alert))
    stream = jobs.get("sessionize", {})
    checks = (entry_point_mistakes, real_time_mistakes, availability_mistakes)
    yield from (("sessionize", mistake) for check in checks for mistake in check(stream))
    folder, retention = _default_value(stream, "input"), _default_value(jobs.get("maintain", {}), "input-retention")
    own_folder = f"/Volumes/{_default_value(stream, 'catalog')}/{_default_value(stream, 'schema')}/"
    if folder and retention and not folder.startswith((_OWN_LANDING_VOLUME, own_folder)):
        yield (
            "maintain",
            f"it would delete files of {folder} after {retention}, read by this target's queries or not by another's: "
            "set maintain_input_retention to an empty text, unless nobody else reads them",
        )


def _schedule_mistakes(key: str, schedule: dict[str, Any] | None, field: str, most_s: int) -> Iterator[tuple[str, str]]:
    if schedule is None:
        return
    mistake = quartz_mistake(str(schedule.get(field, "")))
    if mistake:
        yield key, mistake
    elif key not in _DAILY_JOBS:
        yield from ((key, mistake) for mistake in interval_mistakes(field, schedule, most_s))


def _default_value(job: dict[str, Any], name: str) -> str:
    return next((str(p.get("default", "")) for p in job.get("parameters", []) if p.get("name") == name), "")
