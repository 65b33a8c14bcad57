"""Unity Catalog: schemas, volumes and their grants."""

import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from tests.bundle.workspace.answers import Refused, Request, Routes, found
from tests.bundle.workspace.tree import Tree

_CATALOG = "/api/2.1/unity-catalog"


class Catalog:
    """One metastore; every catalog that a request names exists."""

    def __init__(self, user_name: str, tree: Tree) -> None:
        self._user = user_name
        self._tree = tree
        self.schemas: dict[str, dict[str, Any]] = {}
        self.volumes: dict[str, dict[str, Any]] = {}
        self.grants: dict[str, dict[str, set[str]]] = {}

    def routes(self) -> Routes:
        return {
            ("GET", f"{_CATALOG}/current-metastore-assignment"): lambda _: {"metastore_id": "1", "workspace_id": 1},
            ("GET", f"{_CATALOG}/catalogs/{{name}}"): lambda request: {"name": request.path["name"]},
            ("GET", f"{_CATALOG}/schemas/{{name}}"): lambda request: found(
                self.schemas, request.path["name"], "Schema"
            ),
            ("POST", f"{_CATALOG}/schemas"): self._create_schema,
            ("PATCH", f"{_CATALOG}/schemas/{{name}}"): lambda request: self._update(self.schemas, request, "Schema"),
            ("DELETE", f"{_CATALOG}/schemas/{{name}}"): self._delete_schema,
            ("GET", f"{_CATALOG}/volumes/{{name}}"): lambda request: found(
                self.volumes, request.path["name"], "Volume"
            ),
            ("POST", f"{_CATALOG}/volumes"): self._create_volume,
            ("PATCH", f"{_CATALOG}/volumes/{{name}}"): lambda request: self._update(self.volumes, request, "Volume"),
            ("DELETE", f"{_CATALOG}/volumes/{{name}}"): self._delete_volume,
            ("GET", f"{_CATALOG}/permissions/{{kind}}/{{name}}"): self._granted,
            ("PATCH", f"{_CATALOG}/permissions/{{kind}}/{{name}}"): self._grant,
        }

    def _owned(self, fields: dict[str, Any]) -> dict[str, Any]:
        now_ms = int(time.time() * 1000)
        return fields | {"owner": self._user, "created_at": now_ms, "updated_at": now_ms, "created_by": self._user}

    def _create_schema(self, request: Request) -> Any:
        name = request.json["name"].lower()
        full_name = f"{request.json['catalog_name']}.{name}"
        _refuse_second(self.schemas, full_name, "Schema")
        fields = {"name": name, "full_name": full_name, "schema_id": str(uuid4())}
        self.schemas[full_name] = self._owned(request.json | fields)
        return self.schemas[full_name]

    def _create_volume(self, request: Request) -> Any:
        schema = f"{request.json['catalog_name']}.{request.json['schema_name'].lower()}"
        found(self.schemas, schema, "Schema")
        name = request.json["name"].lower()
        _refuse_second(self.volumes, f"{schema}.{name}", "Volume")
        fields = {"name": name, "full_name": f"{schema}.{name}", "volume_id": str(uuid4())}
        volume = self._owned(request.json | fields)
        self.volumes[volume["full_name"]] = volume
        self._tree.make_folder(_files_of(volume["full_name"]))
        return volume

    def _update(self, things: dict[str, dict[str, Any]], request: Request, what: str) -> Any:
        thing = found(things, request.path["name"], what)
        thing.update({name: value for name, value in request.json.items() if value not in {None, ""}})
        return thing

    def _delete_schema(self, request: Request) -> None:
        name = request.path["name"]
        found(self.schemas, name, "Schema")
        del self.schemas[name]
        self.grants.pop(f"SCHEMA:{name}", None)
        for volume in [volume for volume in self.volumes if volume.startswith(f"{name}.")]:
            self._drop_volume(volume)
        self._tree.drop_folder(_files_of(name))

    def _delete_volume(self, request: Request) -> None:
        found(self.volumes, request.path["name"], "Volume")
        self._drop_volume(request.path["name"])

    def _drop_volume(self, name: str) -> None:
        del self.volumes[name]
        self.grants.pop(f"VOLUME:{name}", None)
        self._tree.drop_folder(_files_of(name))

    def _grant(self, request: Request) -> Any:
        granted = self.grants.setdefault(_securable(request), {})
        for change in request.json.get("changes", []):
            privileges = granted.setdefault(change["principal"], set())
            removed = set(change.get("remove", []))
            privileges -= privileges if "ALL_PRIVILEGES" in removed else removed
            privileges |= set(change.get("add", []))
        return self._granted(request)

    def _granted(self, request: Request) -> Any:
        granted = self.grants.get(_securable(request), {})
        return {
            "privilege_assignments": [
                {"principal": principal, "privileges": sorted(privileges)}
                for principal, privileges in sorted(granted.items())
                if privileges
            ]
        }


def _refuse_second(things: Mapping[str, Any], full_name: str, what: str) -> None:
    if full_name in things:
        name = full_name.rpartition(".")[2]
        raise Refused(400, f"{what.upper()}_ALREADY_EXISTS", f"{what} '{name}' already exists")


def _files_of(full_name: str) -> str:
    return "/Volumes/" + full_name.replace(".", "/")


def _securable(request: Request) -> str:
    return f"{request.path['kind'].upper()}:{request.path['name']}"
