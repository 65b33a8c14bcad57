"""What targets must be to each other, and what a target that people depend on must be."""

import re
from collections.abc import Iterator
from itertools import combinations

from tools.bundle.resolve import Resolved
from tools.bundle.sources import MAIN, Finding, Sources

_RULE = re.compile(r"^([a-z-]+):", re.MULTILINE)
_MODES = {"development", "production"}
FOR_PLAYERS = {"prod", "continuous"}
_PLAYERS_MADE_UP = "simulate"


def target_findings(sources: Sources, targets: list[Resolved]) -> Iterator[Finding]:
    for one, other in combinations(targets, 2):
        for what, where in _homes(one).items():
            if _homes(other).get(what) == where:
                yield Finding(
                    _home_file(sources, what), f"targets {one.target} and {other.target} share {what} {where}"
                )
    if [target.target for target in targets if target.settings.get("default")] != ["dev"]:
        yield Finding(MAIN, "dev must be the default target, and the only one")
    for target in targets:
        yield from (Finding(MAIN, f"target {target.target}: {mistake}") for mistake in _alone(target))
    yield from _builds(sources)


def _homes(target: Resolved) -> dict[str, str]:
    """What must be a target's own: its tables, its checkpoint (and with it the lock), its topic, its workspace folder."""
    homes: dict[str, str] = {}
    for key, schema in target.resources.get("schemas", {}).items():
        homes[f"the tables (schemas.{key})"] = f"{schema.get('catalog_name')}.{schema.get('name')}"
    for key, volume in target.resources.get("volumes", {}).items():
        place = (volume.get("catalog_name"), volume.get("schema_name"), volume.get("name"))
        homes[f"the files (volumes.{key})"] = ".".join(map(str, place))
    for key, job in target.resources.get("jobs", {}).items():
        for parameter in job.get("parameters", []):
            if parameter.get("name") == "input" and parameter.get("default"):
                # Shared, one target's maintain would delete what another has not read.
                homes[f"the input of job {key}"] = str(parameter["default"])
            if parameter.get("name") == "output-topic":
                # Shared, each target's landing would take what the other one sends into its own tables.
                homes[f"the topic of job {key}"] = str(parameter.get("default"))
            if parameter.get("name") in {"checkpoints", "schema"}:
                catalog = next((p.get("default") for p in job["parameters"] if p.get("name") == "catalog"), "")
                value = parameter.get("default")
                is_schema = parameter["name"] == "schema"
                homes[f"the {parameter['name']} of job {key}"] = f"{catalog}.{value}" if is_schema else str(value)
    root = target.settings.get("workspace", {}).get("root_path")
    return homes | ({"the workspace folder": root} if root else {})


def _home_file(sources: Sources, what: str) -> str:
    for kind in ("schemas", "volumes"):
        if f"({kind}." in what:
            return sources.file_of(kind, what.split(f"({kind}.")[1].rstrip(")"))
    return sources.file_of("jobs", what.split("job ")[1]) if "of job " in what else MAIN


def _alone(target: Resolved) -> Iterator[str]:
    settings = target.settings
    if target.target in FOR_PLAYERS:
        yield from for_players_mistakes(target)
    if settings.get("mode") not in _MODES:
        yield f"mode {settings.get('mode')!r} is none of development and production"
    if settings.get("mode") == "development" and target.target != "dev":
        yield "mode development is dev's alone: it pauses all triggers and puts a person's name before everything"
    if settings.get("mode") != "production":
        return
    if "service_principal_name" not in settings.get("run_as", {}):
        yield "run_as must be a service principal: a person's job ends with the person's account"
    if not settings.get("permissions"):
        yield "permissions are missing: only who deployed could look after it"
    root = settings.get("workspace", {}).get("root_path", "")
    if not root:
        yield "workspace.root_path is missing: two people would deploy two copies"
    if root.startswith("/Workspace/Shared"):
        yield "workspace.root_path under /Workspace/Shared can be written by everybody"
    if target.target in FOR_PLAYERS and "branch" not in settings.get("git", {}):
        yield "git.branch is missing: any branch could be deployed"


def for_players_mistakes(target: Resolved) -> Iterator[str]:
    """What must be said before anybody has set anything."""
    resources = target.resources
    if _PLAYERS_MADE_UP in resources.get("jobs", {}):
        yield f"the job {_PLAYERS_MADE_UP} would put its players among those who play"
    for key, job in resources.get("jobs", {}).items():
        if not job.get("email_notifications", {}).get("on_failure"):
            yield f"nobody hears of a failed run of {key}"
    if any(not alert.get("evaluation", {}).get("notification", {}).get("subscriptions")
           for alert in resources.get("alerts", {}).values()):  # fmt: skip
        yield "nobody hears of the alerts"
    kept = [*resources.get("schemas", {}).values(), *resources.get("volumes", {}).values()]
    if any(thing.get("lifecycle", {}).get("prevent_destroy") is not True for thing in kept):
        yield "keep_tables must be true: one wrong command would delete the tables"
    if not any("watched" in artifact.get("build", "") for artifact in target.settings.get("artifacts", {}).values()):
        yield "its build must ask for `watched`, which refuses to deploy where on_call is no address"


def _builds(sources: Sources) -> Iterator[Finding]:
    """A build that names no target of the Makefile fails in the middle of a deploy."""
    makefile = sources.root / "Makefile"
    known = set(_RULE.findall(makefile.read_text(encoding="utf-8"))) if makefile.is_file() else set()
    for place in (sources.main, *sources.main.get("targets", {}).values()):
        for artifact in place.get("artifacts", {}).values():
            program, *words = artifact.get("build", "").partition("\n")[0].partition("<<")[0].split()
            named = [word for word in words if not word.startswith("-") and "=" not in word]
            if program != "make" or not named or not known.issuperset(named):
                yield Finding(MAIN, f"build {program} {' '.join(words)}: it must be make with targets of the Makefile")
