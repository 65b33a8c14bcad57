"""Checks of the targets: no two share a table, a checkpoint or a topic, and production targets are protected."""

import re
from collections.abc import Iterator
from itertools import combinations

from tools.bundle.resolve import Resolved
from tools.bundle.sources import MAIN, Finding, Sources

_RULE = re.compile(r"^([a-z-]+):", re.MULTILINE)
_MODES = {"development", "production"}
FOR_PLAYERS = ("prod", "continuous")
_SIMULATOR = "simulate"


def target_findings(sources: Sources, targets: list[Resolved]) -> Iterator[Finding]:
    for one, other in combinations(targets, 2):
        for name, location in _locations(one).items():
            if _locations(other).get(name) == location:
                yield Finding(
                    _file_of_location(sources, name),
                    f"targets {one.target} and {other.target} share {name} {location}",
                )
    if [target.target for target in targets if target.settings.get("default")] != ["dev"]:
        yield Finding(MAIN, "dev must be the default target, and the only one")
    for target in targets:
        yield from (Finding(MAIN, f"target {target.target}: {mistake}") for mistake in _target_mistakes(target))
    yield from _build_findings(sources)


def _locations(target: Resolved) -> dict[str, str]:
    """The locations that no two targets may share: tables, checkpoint (with its lock), topic and workspace folder."""
    locations: dict[str, str] = {}
    for key, schema in target.resources.get("schemas", {}).items():
        locations[f"the tables (schemas.{key})"] = f"{schema.get('catalog_name')}.{schema.get('name')}"
    for key, volume in target.resources.get("volumes", {}).items():
        parts = (volume.get("catalog_name"), volume.get("schema_name"), volume.get("name"))
        locations[f"the files (volumes.{key})"] = ".".join(map(str, parts))
    for key, job in target.resources.get("jobs", {}).items():
        for parameter in job.get("parameters", []):
            if parameter.get("name") == "input" and parameter.get("default"):
                # With a shared input, one target's maintain would delete files that another has not read.
                locations[f"the input of job {key}"] = str(parameter["default"])
            if parameter.get("name") == "output-topic":
                # With a shared topic, each target's land_changes would write the other's changes into its own tables.
                locations[f"the topic of job {key}"] = str(parameter.get("default"))
            if parameter.get("name") in {"checkpoints", "schema"}:
                catalog = next((p.get("default") for p in job["parameters"] if p.get("name") == "catalog"), "")
                value = parameter.get("default")
                is_schema = parameter["name"] == "schema"
                locations[f"the {parameter['name']} of job {key}"] = f"{catalog}.{value}" if is_schema else str(value)
    root = target.settings.get("workspace", {}).get("root_path")
    return locations | ({"the workspace folder": root} if root else {})


def _file_of_location(sources: Sources, name: str) -> str:
    for kind in ("schemas", "volumes"):
        if f"({kind}." in name:
            return sources.file_of(kind, name.split(f"({kind}.")[1].rstrip(")"))
    return sources.file_of("jobs", name.split("job ")[1]) if "of job " in name else MAIN


def _target_mistakes(target: Resolved) -> Iterator[str]:
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
        yield "permissions are missing: only the deployer could manage the resources"
    root = settings.get("workspace", {}).get("root_path", "")
    if not root:
        yield "workspace.root_path is missing: two people would deploy two copies"
    if root.startswith("/Workspace/Shared"):
        yield "workspace.root_path under /Workspace/Shared can be written by everybody"
    if target.target in FOR_PLAYERS and "branch" not in settings.get("git", {}):
        yield "git.branch is missing: any branch could be deployed"


def for_players_mistakes(target: Resolved) -> Iterator[str]:
    """Check the values that protect the players' tables and name an address for failures."""
    resources = target.resources
    if _SIMULATOR in resources.get("jobs", {}):
        yield f"the job {_SIMULATOR} would put its players among those who play"
    for key, job in resources.get("jobs", {}).items():
        if not job.get("email_notifications", {}).get("on_failure"):
            yield f"nobody hears of a failed run of {key}"
    if any(not alert.get("evaluation", {}).get("notification", {}).get("subscriptions")
           for alert in resources.get("alerts", {}).values()):  # fmt: skip
        yield "nobody hears of the alerts"
    protected = [*resources.get("schemas", {}).values(), *resources.get("volumes", {}).values()]
    if any(thing.get("lifecycle", {}).get("prevent_destroy") is not True for thing in protected):
        yield "keep_tables must be true: one wrong command would delete the tables"
    if not any("watched" in artifact.get("build", "") for artifact in target.settings.get("artifacts", {}).values()):
        yield "its build must ask for `watched`, which refuses to deploy where on_call is no address"


def _build_findings(sources: Sources) -> Iterator[Finding]:
    """Check that each build names targets of the Makefile: a wrong one fails in the middle of a deploy."""
    makefile = sources.root / "Makefile"
    known = set(_RULE.findall(makefile.read_text(encoding="utf-8"))) if makefile.is_file() else set()
    for place in (sources.main, *sources.main.get("targets", {}).values()):
        for artifact in place.get("artifacts", {}).values():
            program, *words = artifact.get("build", "").partition("\n")[0].partition("<<")[0].split()
            named = [word for word in words if not word.startswith("-") and "=" not in word]
            if program != "make" or not named or not known.issuperset(named):
                yield Finding(MAIN, f"build {program} {' '.join(words)}: it must be make with targets of the Makefile")
