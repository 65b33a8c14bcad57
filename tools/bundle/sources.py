"""The unresolved bundle: its YAML files, read strictly, and the mistakes in their structure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError

ROOT = Path(__file__).parents[2]
MAIN = "databricks.yml"

_KEYS = {"bundle", "include", "sync", "artifacts", "experimental", "targets", "variables", "resources"}
_TARGET_KEYS = {
    "mode", "default", "presets", "git", "workspace", "run_as", "permissions", "variables", "resources", "artifacts",
}  # fmt: skip
_VARIABLE_KEYS = {"description", "default", "type"}
_MUST_BE_GIVEN = {"alert_subscriptions", "catalog", "node_type"}
"""Variables without a default. The CLI refuses a deploy that does not set them."""
_PERMISSION_LEVELS = {"CAN_MANAGE", "CAN_VIEW", "CAN_RUN"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake, and the file to fix it in."""

    file: str
    mistake: str

    def __str__(self) -> str:
        return f"{self.file}: {self.mistake}"


@dataclass(frozen=True, slots=True)
class Sources:
    """The files' contents by path from `root`, and the findings while reading them."""

    root: Path
    contents: dict[str, dict[str, Any]]
    findings: list[Finding] = field(default_factory=list)

    @property
    def main(self) -> dict[str, Any]:
        return self.contents.get(MAIN, {})

    @property
    def targets(self) -> list[str]:
        return list(self.main.get("targets", {}))

    def variables(self) -> dict[str, dict[str, Any]]:
        return {
            name: definition
            for content in self.contents.values()
            for name, definition in content.get("variables", {}).items()
        }

    def resources(self, target: str | None = None) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
        """Each resource, or each resource of one target, as file, kind, key and fields.

        The fields are without the overrides in `databricks.yml`.
        A resource that only some targets have is listed in its file below these targets.
        """
        for file, content in self.contents.items():
            seen = set()
            for kind, key, fields in _resources_in(file, content, target):
                if (kind, key) not in seen:
                    seen.add((kind, key))
                    yield file, kind, key, fields

    def file_of(self, kind: str, key: str) -> str:
        return next(
            (file for file, its_kind, its_key, _ in self.resources() if (its_kind, its_key) == (kind, key)), MAIN
        )


def read_sources(root: Path) -> Sources:
    """Read `databricks.yml` and the files that it includes; an unreadable file becomes a finding."""
    sources = Sources(root, {})
    _read(sources, MAIN)
    for pattern in sources.main.get("include", []):
        files = sorted(root.glob(pattern))
        if not files:
            sources.findings.append(Finding(MAIN, f"include: no file is like {pattern}"))
        for file in files:
            _read(sources, str(file.relative_to(root)))
    sources.findings.extend(_unknown_keys(sources))
    sources.findings.extend(_misplaced(sources))
    sources.findings.extend(_same_keys(sources))
    return sources


def _resources_in(file: str, content: dict[str, Any], target: str | None) -> Iterator[tuple[str, str, dict[str, Any]]]:
    places = [content]
    if file != MAIN:
        places += [place for name, place in content.get("targets", {}).items() if target in {None, name}]
    for place in places:
        for kind, by_key in place.get("resources", {}).items():
            for key, fields in by_key.items():
                yield kind, key, fields


def strings(value: Any) -> Iterator[str]:
    """Every text in a value, at any depth."""
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from strings(inner)
        case list():
            for inner in value:
                yield from strings(inner)


@cache
def _parsed(text: str) -> dict[str, Any]:
    """Parse a text, once because parsing is slow; callers must not change the result."""
    parsed: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return parsed


def _read(sources: Sources, file: str) -> None:
    try:
        content = _parsed((sources.root / file).read_text(encoding="utf-8"))
    except DuplicateKeyError as error:
        sources.findings.append(Finding(file, f"line {error.problem_mark.line + 1}: {error.problem}"))
    except (OSError, MarkedYAMLError) as error:
        sources.findings.append(Finding(file, f"cannot be read: {error}"))
    else:
        sources.contents[file] = content


def _mistakes_in_value(file: str, name: str, definition: dict[str, Any]) -> Iterator[Finding]:
    if name in _MUST_BE_GIVEN:
        if "default" in definition:
            yield Finding(file, f"variable {name}: no default is right on every cloud and in every workspace")
    elif "default" not in definition:
        yield Finding(file, f"variable {name} needs a default: without it every deploy must set it")


def _unknown_keys(sources: Sources) -> Iterator[Finding]:
    for file, content in sources.contents.items():
        for key in content.keys() - _KEYS:
            yield Finding(file, f"{key} is not a section of a bundle")
        for name, definition in content.get("variables", {}).items():
            for key in definition.keys() - _VARIABLE_KEYS:
                yield Finding(file, f"variable {name}: {key} is not a field of a variable")
            if "description" not in definition:
                yield Finding(file, f"variable {name} has no description")
            yield from _mistakes_in_value(file, name, definition)
    for name, target in sources.main.get("targets", {}).items():
        for key in target.keys() - _TARGET_KEYS:
            yield Finding(MAIN, f"target {name}: {key} is not a field of a target")
        for variable in target.get("variables", {}).keys() - sources.variables().keys():
            yield Finding(MAIN, f"target {name} sets the unknown variable {variable}")
        for permission in target.get("permissions", []):
            if permission.get("level") not in _PERMISSION_LEVELS:
                yield Finding(MAIN, f"target {name}: {permission.get('level')} is not a permission level of a bundle")


def _same_keys(sources: Sources) -> Iterator[Finding]:
    """Find keys that two resources share: the CLI allows each key once, across all kinds."""
    first: dict[str, str] = {}
    for file, _kind, key, _fields in sources.resources():
        if key in first:
            yield Finding(
                file, f"the key {key} is used in {first[key]} too: the CLI wants each once, whatever the kind"
            )
        first.setdefault(key, file)


def _misplaced(sources: Sources) -> Iterator[Finding]:
    """Check that each file holds one resource and is named after it, as the CLI recommends and people expect."""
    for file, content in sources.contents.items():
        for name, target in content.get("targets", {}).items() if file != MAIN else ():
            if name not in sources.targets or target.keys() != {"resources"}:
                yield Finding(file, f"target {name}: here only the resources of a target of {MAIN} may stand")
        named = list(dict.fromkeys((kind, key) for kind, key, _ in _resources_in(file, content, None)))
        if file == MAIN:
            if named:
                yield Finding(file, f"resources {named} belong into files of their own")
            continue
        if not named:
            continue
        expected = [Path(file).with_name(f"{key}.{kind.removesuffix('s')}.yml").name for kind, key in named]
        if expected != [Path(file).name]:
            yield Finding(file, f"holds {', '.join(expected)}: one resource a file, named after it")
