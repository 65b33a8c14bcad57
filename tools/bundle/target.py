"""A target of the bundle with all its values, from the files or from `databricks bundle validate -o json`."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TARGETS = ("dev", "staging", "prod", "continuous")
FOR_PLAYERS = ("prod", "continuous")
_REFERENCE = re.compile(r"\$\{([a-zA-Z][\w.]*)\}")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is ten times as fast
_PERSON = {"userName": "someone@example.com", "short_name": "someone"}
_EXAMPLES: dict[str, Any] = {
    "catalog": "catalog",
    "node_type": "m6gd.xlarge",
    "alert_subscriptions": [{"user_email": "lead@studio.example"}],
}
"""Of the variables that a deploy must give."""


def read_bundle(root: Path = ROOT) -> dict[str, Any]:
    """The sections of `databricks.yml` and of the files in `bundles/` together, unresolved."""
    bundle: dict[str, Any] = {}
    for file in (root / "databricks.yml", *sorted((root / "bundles").glob("*.yml"))):
        bundle = merged(bundle, yaml.load(file.read_text(encoding="utf-8"), _LOADER))  # noqa: S506 - a safe one
    return bundle


def read_target(name: str, root: Path = ROOT, **variables: Any) -> dict[str, Any]:
    """A target as `databricks bundle validate -o json` writes it, with references to resources resolved too.

    Raises `KeyError` for a reference that leads nowhere.
    """
    bundle = read_bundle(root)
    target = bundle.pop("targets")[name]
    given = _EXAMPLES | target.pop("variables", {}) | variables
    values = {key: definition.get("default") for key, definition in bundle.pop("variables").items()} | given
    bundle = merged(bundle, target)
    bundle["bundle"] |= {"target": name, "mode": target.get("mode"), "git": target.get("git", {})}
    if target.get("mode") == "development":
        for schema in bundle["resources"]["schemas"].values():
            schema["name"] = f"dev_{_PERSON['short_name']}_{schema['name']}"
    paths = {"file_path": f"/Workspace/{name}/files"}
    bundle["workspace"] = bundle.get("workspace", {}) | paths | {"current_user": _PERSON}
    found: dict[str, Any] = resolved(bundle, bundle | {"var": values})
    return found


def resolved(value: Any, context: dict[str, Any]) -> Any:
    """Replace the references in a value, at any depth; the id of a resource, which a deploy gives, stays one."""
    match value:
        case dict():
            return {key: resolved(inner, context) for key, inner in value.items()}
        case list():
            return [resolved(inner, context) for inner in value]
        case str() if (whole := _REFERENCE.fullmatch(value)) and not value.endswith(".id}"):
            return resolved(deepcopy(_look_up(whole[1], context)), context)
        case str() if any(not name.endswith(".id") for name in _REFERENCE.findall(value)):
            return resolved(_REFERENCE.sub(lambda match: str(_look_up(match[1], context)), value), context)
        case _:
            return value


def merged(base: Any, override: Any) -> Any:
    """Merge maps, and the tasks of a job by their keys, as the CLI does; other values are replaced."""
    if isinstance(base, dict) and isinstance(override, dict):
        return base | override | {key: merged(base[key], override[key]) for key in base.keys() & override.keys()}
    if isinstance(base, list) and isinstance(override, list) and all("task_key" in task for task in override):
        changes = {task["task_key"]: task for task in override}
        return [merged(task, changes.get(task["task_key"], {})) for task in base]
    return override


def _look_up(reference: str, context: dict[str, Any]) -> Any:
    value: Any = context
    for part in reference.split("."):
        value = value[part]
    return value
