"""Checks of grants, permissions and volumes: each principal has exactly the rights that it needs."""

from collections.abc import Iterator
from typing import Any

from tools.bundle.resolve import Resolved
from tools.bundle.sources import MAIN, Finding, Sources

_READS, _WRITES = {"READ_VOLUME"}, {"READ_VOLUME", "WRITE_VOLUME"}
_RUNNER, _READER, _OPERATOR, _COLLECTORS = (
    f"${{var.{name}}}" for name in ("runner", "reader", "operator", "collectors")
)
GRANTS: dict[str, dict[str, set[str]]] = {
    "sessions": {
        _RUNNER: {"USE_SCHEMA", "CREATE_TABLE", "CREATE_MODEL", "SELECT", "MODIFY"},
        _READER: {"USE_SCHEMA", "SELECT"},
        _OPERATOR: {"USE_SCHEMA", "SELECT"},
        _COLLECTORS: {"USE_SCHEMA"},
    },
    "checkpoints": {_RUNNER: _WRITES, _OPERATOR: _WRITES},
    "landing": {_RUNNER: _WRITES, _COLLECTORS: _WRITES, _OPERATOR: _READS},
    "logs": {_RUNNER: _WRITES, _OPERATOR: _WRITES},
}
"""Privileges by schema or volume and principal; the principals are unresolved references."""
_OF_THE_WAREHOUSE = [{"level": "CAN_USE", "group_name": "users"}]
"""A target's own levels have none that lets readers query, and the CLI warns of a second entry for a group."""
_PERMISSIONS = {
    ("service_principal_name", "${var.service_principal}"): "CAN_MANAGE",
    ("group_name", "${var.operators}"): "CAN_MANAGE",
    ("group_name", "${var.readers}"): "CAN_VIEW",
}


def right_findings(sources: Sources, target: Resolved) -> Iterator[Finding]:
    for file, kind, key, written in sources.resources(target.target):
        if kind in {"schemas", "volumes"}:
            yield from (Finding(file, f"{key}: {mistake}") for mistake in _grants(key, written))
        if kind == "sql_warehouses":
            if written.get("permissions") != _OF_THE_WAREHOUSE:
                yield Finding(file, f"{key}: permissions must be {_OF_THE_WAREHOUSE}, or the dashboard stays empty")
        elif "permissions" in written:
            yield Finding(file, f"{key}: permissions stand in {MAIN}, for all that a target has")
        if "run_as" in written:
            yield Finding(file, f"{key}: run_as stands in {MAIN}: a person's job ends with the person's account")
    if target.settings.get("mode") == "production":
        yield from _permissions(sources, target.target)
    yield from _volumes(sources, target)


def _grants(key: str, written: dict[str, Any]) -> Iterator[str]:
    given = {grant.get("principal"): set(grant.get("privileges", ())) for grant in written.get("grants", [])}
    required = GRANTS.get(key, {})
    for principal in [*required, *(given.keys() - required.keys())]:
        granted, needed = given.get(principal, set()), required.get(principal, set())
        if granted != needed:
            yield f"{principal} is granted {sorted(granted)}, and needs {sorted(needed)}"


def _permissions(sources: Sources, target: str) -> Iterator[Finding]:
    for permission in sources.main["targets"][target].get("permissions", []):
        level = permission.get("level")
        principals = [(kind, name) for kind, name in permission.items() if kind != "level"]
        for principal in principals:
            if level != _PERMISSIONS.get(principal):
                yield Finding(
                    MAIN,
                    f"target {target}: {principal[1]} has {level}, and needs {_PERMISSIONS.get(principal, 'nothing')}",
                )


def _volumes(sources: Sources, target: Resolved) -> Iterator[Finding]:
    schema = target.resources.get("schemas", {}).get("sessions", {})
    own_schema = (schema.get("catalog_name"), schema.get("name"))
    key_of_name: dict[Any, str] = {}
    for key, volume in target.resources.get("volumes", {}).items():
        file = sources.file_of("volumes", key)
        if (volume.get("catalog_name"), volume.get("schema_name")) != own_schema:
            yield Finding(
                file, f"{key}: the volume must be in the target's own schema, {own_schema[0]}.{own_schema[1]}"
            )
        if volume.get("volume_type") != "MANAGED":
            yield Finding(file, f"{key}: volume_type must be MANAGED: another target could name the same storage")
        if volume.get("name") in key_of_name:
            yield Finding(
                file, f"{key}: the name {volume.get('name')} is that of volume {key_of_name[volume.get('name')]}"
            )
        key_of_name[volume.get("name")] = key
