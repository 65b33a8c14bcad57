"""Resolves the bundle for a target: merges the overrides, and replaces variables and references."""

import copy
import re
from dataclasses import dataclass
from typing import Any

from tools.bundle.sources import Sources

REFERENCE = re.compile(r"\$\{([a-zA-Z][\w.\-\[\]]*)\}")
_PERSON = {"userName": "someone@example.com", "short_name": "someone", "id": "1", "displayName": "Someone"}
_WORKSPACE = ("root_path", "file_path", "resource_path", "artifact_path", "state_path", "host")
_SUBSCRIBERS = [{"user_email": _PERSON["userName"]}]
_MAX_ROUNDS = 10
_PARTS_OF_AN_ID = len(["resources", "KIND", "KEY", "id"])


@dataclass(frozen=True, slots=True)
class Unresolved(Exception):  # noqa: N818 - the name says what the reference is
    """Raised for a reference that leads nowhere."""

    reference: str

    def __str__(self) -> str:
        return f"${{{self.reference}}} leads nowhere"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The resources that a target deploys, as `resources[kind][key]`, and the target's own settings."""

    target: str
    resources: dict[str, dict[str, dict[str, Any]]]
    settings: dict[str, Any]


def resolve(sources: Sources, target: str) -> Resolved:
    """Resolve a target as the CLI does.

    Raises `Unresolved` for a reference that leads nowhere.
    """
    overrides = sources.main["targets"][target]
    resources: dict[str, Any] = {}
    for _file, kind, key, fields in sources.resources(target):
        resources.setdefault(kind, {})[key] = copy.deepcopy(fields)
    resources = merged(resources, overrides.get("resources", {}))
    settings = {name: value for name, value in overrides.items() if name not in {"resources", "variables"}}
    context = {
        "var": _variables(sources, overrides),
        "bundle": {"name": sources.main["bundle"]["name"], "target": target, "git": {"branch": "main", "commit": "0"}},
        "workspace": {"current_user": _PERSON, **{name: f"/Workspace/{name}" for name in _WORKSPACE}},
        "resources": resources,
    }
    if overrides.get("mode") == "development":
        for schema in resources.get("schemas", {}).values():
            schema["name"] = f"dev_{_PERSON['short_name']}_{schema['name']}"
    return Resolved(target, _replace_references(resources, context), _replace_references(settings, context))


def merged(base: Any, override: Any) -> Any:
    """Merge maps, and replace all other values.

    Raises `TypeError` for a list in an override, which the CLI would join.
    """
    if isinstance(base, dict) and isinstance(override, dict):
        common = {key: merged(base[key], override[key]) for key in base.keys() & override.keys()}
        return base | override | common
    if isinstance(override, list):
        msg = f"the override {override} is a list: the CLI would join it to the other one"
        raise TypeError(msg)
    return override


def look_up(reference: str, context: dict[str, Any]) -> Any:
    """The value of a reference; references within the value are not resolved.

    Raises `Unresolved` for a reference that leads nowhere.
    """
    value: Any = context
    parts = reference.split(".")
    for part in parts:
        if part == "id" and parts[0] == "resources" and len(parts) == _PARTS_OF_AN_ID:
            return f"<{reference}>"
        if not isinstance(value, dict) or part not in value:
            raise Unresolved(reference)
        value = value[part]
    return value


def _variables(sources: Sources, overrides: dict[str, Any]) -> dict[str, Any]:
    """The value of each variable. One without a default, which a deploy must give, has an example for a value."""
    values: dict[str, Any] = {
        name: definition.get("default", _SUBSCRIBERS if definition.get("type") == "complex" else name)
        for name, definition in sources.variables().items()
    }
    return {**values, **overrides.get("variables", {})}


def _replace_references(value: Any, context: dict[str, Any]) -> Any:
    match value:
        case dict():
            return {key: _replace_references(inner, context) for key, inner in value.items()}
        case list():
            return [_replace_references(inner, context) for inner in value]
        case str():
            for _ in range(_MAX_ROUNDS):
                whole = REFERENCE.fullmatch(value)
                if whole:
                    value = look_up(whole[1], context)
                    if not isinstance(value, str):
                        return _replace_references(value, context)
                elif REFERENCE.search(value):
                    value = REFERENCE.sub(lambda match: str(look_up(match[1], context)), value)
                else:
                    return value
            raise Unresolved(value)
        case _:
            return value
