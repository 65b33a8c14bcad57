"""All checks of the bundle that need no workspace; each mistake is a finding."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tools.bundle.dashboards import dashboard_findings
from tools.bundle.jobs import job_findings
from tools.bundle.options import generated_findings, option_findings
from tools.bundle.resolve import REFERENCE, Resolved, Unresolved, look_up, resolve
from tools.bundle.rights import right_findings
from tools.bundle.shapes import FIELDS_OF, shape_findings
from tools.bundle.sources import MAIN, Finding, Sources, read_sources, strings
from tools.bundle.targets import target_findings
from tools.bundle.watching import watch_findings

_BUNDLE = {"name", "target", "git.branch", "git.commit", "git.origin_url", "uuid"}
_USER = {"userName", "short_name", "domain_friendly_name", "id", "displayName"}
_WORKSPACE = {"root_path", "file_path", "resource_path", "artifact_path", "state_path", "host"} | {
    f"current_user.{name}" for name in _USER
}


def findings(root: Path) -> list[Finding]:
    """All mistakes of the bundle in a folder, each once; without one, every target resolves and can be deployed."""
    sources = read_sources(root)
    found = [
        *sources.findings,
        *_references(sources),
        *_unused(sources),
        *_files(sources),
        *generated_findings(sources),
    ]
    targets: list[Resolved] = []
    for target in sources.targets:
        try:
            targets.append(resolve(sources, target))
        except (Unresolved, KeyError, TypeError, AttributeError) as error:
            found.append(Finding(MAIN, f"target {target} cannot be put together: {error}"))
    per_target: tuple[Callable[[Sources, Resolved], Iterator[Finding]], ...] = (
        shape_findings,
        job_findings,
        option_findings,
        watch_findings,
        right_findings,
    )
    for resolved in targets:
        for check in per_target:
            found.extend(check(sources, resolved))
    found.extend(target_findings(sources, targets))
    return list(dict.fromkeys(found))


def _references(sources: Sources) -> Iterator[Finding]:
    """Find references that lead nowhere, in every file, even if no target uses them."""
    known = {"var": sources.variables(), "resources": {}}
    for _file, kind, key, _fields in sources.resources():
        known["resources"].setdefault(kind, {})[key] = dict.fromkeys({*FIELDS_OF.get(kind, ()), "id"})
    for file, content in sources.contents.items():
        for text in strings(content):
            if text.count("${") != len(REFERENCE.findall(text)):
                yield Finding(file, f"{text!r} holds a reference that is not closed or not well formed")
            for reference in REFERENCE.findall(text):
                if not _leads_somewhere(reference, known):
                    yield Finding(file, f"${{{reference}}} leads nowhere")


def _leads_somewhere(reference: str, known: dict[str, Any]) -> bool:
    section, _dot, rest = reference.partition(".")
    match section:
        case "bundle":
            return rest in _BUNDLE
        case "workspace":
            return rest in _WORKSPACE
        case "var":
            name, *fields = rest.split(".")
            default = known["var"].get(name, {}).get("default")
            return name in known["var"] and (not fields or (isinstance(default, dict) and fields[0] in default))
        case "resources":
            try:
                look_up(reference, known)
            except Unresolved:
                return False
            return True
        case _:
            return False


def _unused(sources: Sources) -> Iterator[Finding]:
    used = {
        reference.split(".")[1]
        for content in sources.contents.values()
        for text in strings(content)
        for reference in REFERENCE.findall(text)
        if reference.startswith("var.")
    }
    for file, content in sources.contents.items():
        for name in content.get("variables", {}).keys() - used:
            yield Finding(file, f"variable {name} is used nowhere")


def _files(sources: Sources) -> Iterator[Finding]:
    """Find named files that do not exist, and mistakes in dashboard files."""
    built = {
        str(Path(entry["source"]))
        for artifact in sources.main.get("artifacts", {}).values()
        for entry in artifact.get("files", [])
    }
    synced = [Path(path) for path in sources.main.get("sync", {}).get("paths", ["."])]
    for path in synced:
        if not (sources.root / path).is_dir():
            yield Finding(MAIN, f"sync: there is no folder {path}")
    for file, kind, _key, fields in sources.resources():
        folder = (sources.root / file).parent

        def path_in_project(name: str, folder: Path = folder) -> Path:
            return (folder / name).resolve().relative_to(sources.root.resolve())

        for name in _named_files(kind, fields):
            if name.endswith(".whl"):
                if str(path_in_project(name)) not in built:
                    yield Finding(file, f"{name} is what no artifact of {MAIN} builds")
            elif not (folder / name).is_file():
                yield Finding(file, f"{name} is not there")
            elif kind == "jobs" and not any(path_in_project(name).is_relative_to(path) for path in synced):
                yield Finding(file, f"{name} is in no folder that goes into the workspace (sync in {MAIN})")
            elif name.endswith(".lvdash.json"):
                text = (folder / name).read_text(encoding="utf-8")
                yield from dashboard_findings(str(path_in_project(name)), text)


def _named_files(kind: str, fields: dict[str, Any]) -> Iterator[str]:
    if "file_path" in fields:
        yield fields["file_path"]
    if kind != "jobs":
        return
    for task in fields.get("tasks", []):
        yield from (task[task_type][field] for task_type, field in _FILE_FIELDS if field in task.get(task_type, {}))
        yield from (library["whl"] for library in task.get("libraries", []) if "whl" in library)


_FILE_FIELDS = (("notebook_task", "notebook_path"), ("spark_python_task", "python_file"), ("sql_task", "file"))
