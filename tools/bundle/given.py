"""What a target is given by its variables, as the CLI puts it together: what it takes without a word and a job then refuses."""

from collections.abc import Iterator
from typing import Any

from tools.bundle.job_options import JOBS
from tools.bundle.jobs import entry_point_mistakes, quartz_mistake, real_time_mistakes
from tools.bundle.options import value_mistakes
from tools.bundle.resolve import Resolved
from tools.bundle.targets import FOR_PLAYERS, for_players_mistakes
from tools.bundle.watching import ALERT_S, RESTART_S, interval_mistakes

_OWN_INPUT = "/Volumes/${resources.volumes.landing."


def given_mistakes(bundle: dict[str, Any]) -> list[str]:
    """The mistakes in what `databricks bundle validate -o json` says of a target; references to resources still stand in it."""
    target = bundle["bundle"]["target"]
    deployed = Resolved(target, bundle["resources"], {"artifacts": bundle.get("artifacts", {})})
    found = [f"{key}: {mistake}" for key, mistake in _mistakes(deployed)]
    if target in FOR_PLAYERS:
        found += [f"{target}: {mistake}" for mistake in for_players_mistakes(deployed)]
    return found


def _mistakes(target: Resolved) -> Iterator[tuple[str, str]]:
    jobs = target.resources.get("jobs", {})
    for key, job in jobs.items():
        yield from ((key, mistake) for mistake in value_mistakes(key, job) if key in JOBS)
        yield from _schedule(key, job.get("schedule"), "quartz_cron_expression", RESTART_S)
    for key, alert in target.resources.get("alerts", {}).items():
        yield from _schedule(key, alert.get("schedule"), "quartz_cron_schedule", ALERT_S)
    stream = jobs.get("sessionize", {})
    yield from (("sessionize", mistake) for mistake in (*entry_point_mistakes(stream), *real_time_mistakes(stream)))
    folder, retention = _default(stream, "input"), _default(jobs.get("maintain", {}), "input-retention")
    home = f"/Volumes/{_default(stream, 'catalog')}/{_default(stream, 'schema')}/"
    if folder and retention and not folder.startswith((_OWN_INPUT, home)):
        yield (
            "maintain",
            f"it would delete files of {folder} after {retention}, read by this target's queries or not by another's: "
            "set maintain_input_retention to an empty text, unless nobody else reads them",
        )


def _schedule(key: str, schedule: dict[str, Any] | None, field: str, most_s: int) -> Iterator[tuple[str, str]]:
    if schedule is None:
        return
    mistake = quartz_mistake(str(schedule.get(field, "")))
    if mistake:
        yield key, mistake
    elif key != "maintain":
        yield from ((key, slow) for slow in interval_mistakes(field, schedule, most_s))


def _default(job: dict[str, Any], name: str) -> str:
    return next((str(p.get("default", "")) for p in job.get("parameters", []) if p.get("name") == name), "")
