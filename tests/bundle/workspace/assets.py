"""Jobs, dashboards, alerts and warehouses, and the permissions on them."""

import copy
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from tests.bundle.workspace.answers import Refused, Request, Routes, found, missing
from tests.bundle.workspace.tree import Tree

_LAKEVIEW = "/api/2.0/lakeview/dashboards"
_WAREHOUSES = "/api/2.0/sql/warehouses"


class Assets:
    """Objects with ids of their own; a job's settings are stored as sent, and its runs end at once as `run_result`."""

    def __init__(self, user_name: str, tree: Tree) -> None:
        self._user = user_name
        self._tree = tree
        self._job_ids = count(1_000)
        self._run_ids = count(1)
        self._clock = _strictly_later()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.runs: list[dict[str, Any]] = []
        self.run_result = "SUCCESS"
        self.dashboards: dict[str, dict[str, Any]] = {}
        self.published: dict[str, dict[str, Any]] = {}
        self.alerts: dict[str, dict[str, Any]] = {}
        self.warehouses: dict[str, dict[str, Any]] = {}
        self.permissions: dict[str, list[dict[str, Any]]] = {}

    def routes(self) -> Routes:
        routes: Routes = {
            (method, f"/api/{version}/jobs/{verb}"): handler
            for version in ("2.0", "2.1", "2.2")
            for method, verb, handler in (
                ("POST", "create", self._create_job),
                ("GET", "get", self._get_job),
                ("POST", "reset", self._reset_job),
                ("POST", "update", self._update_job),
                ("POST", "delete", self._delete_job),
                ("GET", "list", lambda _: {"jobs": list(self.jobs.values())}),
                ("POST", "run-now", self._run_job),
                ("GET", "runs/get", self._get_run),
                ("POST", "runs/delete", self._delete_run),
                ("POST", "runs/cancel-all", lambda request: self._job(request.json["job_id"]) and None),
                ("GET", "runs/list", lambda _: {"runs": []}),
            )
        }
        return routes | {
            ("POST", _WAREHOUSES): self._create_warehouse,
            ("GET", f"{_WAREHOUSES}/{{id}}"): lambda request: found(self.warehouses, request.path["id"], "Warehouse"),
            ("POST", f"{_WAREHOUSES}/{{id}}/edit"): self._edit_warehouse,
            ("DELETE", f"{_WAREHOUSES}/{{id}}"): self._delete_warehouse,
            ("POST", _LAKEVIEW): self._create_dashboard,
            ("GET", f"{_LAKEVIEW}/{{id}}"): lambda request: found(self.dashboards, request.path["id"], "Dashboard"),
            ("PATCH", f"{_LAKEVIEW}/{{id}}"): self._update_dashboard,
            ("DELETE", f"{_LAKEVIEW}/{{id}}"): self._trash_dashboard,
            ("POST", f"{_LAKEVIEW}/{{id}}/published"): self._publish,
            ("GET", f"{_LAKEVIEW}/{{id}}/published"): lambda request: found(
                self.published, request.path["id"], "Published dashboard"
            ),
            ("DELETE", f"{_LAKEVIEW}/{{id}}/published"): lambda request: self.published.pop(request.path["id"], None),
            ("POST", "/api/2.0/alerts"): self._create_alert,
            ("GET", "/api/2.0/alerts/{id}"): lambda request: found(self.alerts, request.path["id"], "Alert"),
            ("PATCH", "/api/2.0/alerts/{id}"): self._update_alert,
            ("DELETE", "/api/2.0/alerts/{id}"): self._delete_alert,
            # A kind may have two parts: sql/warehouses.
            ("GET", "/api/2.0/permissions/{kind...}/{id}"): self._permissions,
            ("PUT", "/api/2.0/permissions/{kind...}/{id}"): self._set_permissions,
            ("PATCH", "/api/2.0/permissions/{kind...}/{id}"): self._set_permissions,
        }

    def _create_job(self, request: Request) -> Any:
        job_id = next(self._job_ids)
        self.jobs[str(job_id)] = {
            "job_id": job_id,
            "creator_user_name": self._user,
            "run_as_user_name": self._user,
            "created_time": self._now_ms(),
            "settings": request.json,
        }
        return {"job_id": job_id}

    def _get_job(self, request: Request) -> Any:
        job = copy.deepcopy(self._job(request.query["job_id"]))
        for task in job["settings"].get("tasks", []):
            task.setdefault("run_if", "ALL_SUCCESS")
        return job

    def _job(self, job_id: Any) -> dict[str, Any]:
        if str(job_id) not in self.jobs:
            msg = f"Job {job_id} does not exist."
            raise missing(msg)
        return self.jobs[str(job_id)]

    def _reset_job(self, request: Request) -> None:
        self._job(request.json["job_id"])["settings"] = request.json["new_settings"]

    def _update_job(self, request: Request) -> None:
        settings = self._job(request.json["job_id"])["settings"]
        settings.update(request.json.get("new_settings", {}))
        for field in request.json.get("fields_to_remove", []):
            settings.pop(field, None)

    def _delete_job(self, request: Request) -> None:
        self._job(request.json["job_id"])
        del self.jobs[str(request.json["job_id"])]

    def _run_job(self, request: Request) -> Any:
        job = self._job(request.json["job_id"])
        run_id = next(self._run_ids)
        self.runs.append(
            {
                "run_id": run_id,
                "job_id": job["job_id"],
                "run_name": job["settings"]["name"],
                "run_page_url": f"https://workspace.example/jobs/{job['job_id']}/runs/{run_id}",
                "overriding_parameters": {"job_parameters": request.json.get("job_parameters", {})},
                "start_time": self._now_ms(),
                "state": {"life_cycle_state": "TERMINATED", "result_state": self.run_result},
            }
        )
        return {"run_id": run_id}

    def _get_run(self, request: Request) -> Any:
        known = {str(run["run_id"]): run for run in self.runs}
        return found(known, request.query["run_id"], "Run")

    def _delete_run(self, request: Request) -> None:
        self.runs = [run for run in self.runs if run["run_id"] != request.json["run_id"]]

    def _create_dashboard(self, request: Request) -> Any:
        folder = request.json.get("parent_path") or f"/Users/{self._user}"
        if not self._tree.has_folder(folder):
            msg = f"Path ({folder}) doesn't exist."
            raise missing(msg)
        dashboard_id, now = uuid4().hex, self._now()
        parent = folder.removeprefix("/Workspace")
        self.dashboards[dashboard_id] = request.json | {
            "dashboard_id": dashboard_id,
            "parent_path": parent,
            "path": f"{parent}/{request.json['display_name']}.lvdash.json",
            "serialized_dashboard": _stored(request),
            "lifecycle_state": "ACTIVE",
            "etag": "1",
            "create_time": now,
            "update_time": now,
        }
        return self.dashboards[dashboard_id]

    def _update_dashboard(self, request: Request) -> Any:
        dashboard = found(self.dashboards, request.path["id"], "Dashboard")
        dashboard.update({name: value for name, value in request.json.items() if name != "etag"})
        if "serialized_dashboard" in request.json:
            dashboard["serialized_dashboard"] = _stored(request)
        dashboard |= {"etag": str(int(dashboard["etag"]) + 1), "update_time": self._now()}
        return dashboard

    def _trash_dashboard(self, request: Request) -> None:
        found(self.dashboards, request.path["id"], "Dashboard")
        del self.dashboards[request.path["id"]]
        self.published.pop(request.path["id"], None)

    def _publish(self, request: Request) -> Any:
        dashboard = found(self.dashboards, request.path["id"], "Dashboard")
        self.published[request.path["id"]] = {
            "display_name": dashboard["display_name"],
            "warehouse_id": request.json.get("warehouse_id") or dashboard.get("warehouse_id"),
            "embed_credentials": bool(request.json.get("embed_credentials")),
            "revision_create_time": self._now(),
        }
        return self.published[request.path["id"]]

    def _create_alert(self, request: Request) -> Any:
        alert_id = str(uuid4())
        self.alerts[alert_id] = request.json | {"id": alert_id, "lifecycle_state": "ACTIVE", "create_time": self._now()}
        return self.alerts[alert_id]

    def _update_alert(self, request: Request) -> Any:
        alert = found(self.alerts, request.path["id"], "Alert")
        self.alerts[alert["id"]] = request.json | {"id": alert["id"], "lifecycle_state": "ACTIVE"}
        return self.alerts[alert["id"]]

    def _delete_alert(self, request: Request) -> None:
        found(self.alerts, request.path["id"], "Alert")
        del self.alerts[request.path["id"]]

    def _create_warehouse(self, request: Request) -> Any:
        warehouse_id = uuid4().hex[:16]
        self.warehouses[warehouse_id] = request.json | {"id": warehouse_id, "state": "RUNNING"}
        return {"id": warehouse_id}

    def _edit_warehouse(self, request: Request) -> Any:
        found(self.warehouses, request.path["id"], "Warehouse").update(request.json)
        return {"id": request.path["id"]}

    def _delete_warehouse(self, request: Request) -> None:
        found(self.warehouses, request.path["id"], "Warehouse")
        del self.warehouses[request.path["id"]]

    def _permissions(self, request: Request) -> Any:
        kind, object_id = request.path["kind"], request.path["id"]
        granted = list(self.permissions.get(f"/{kind}/{object_id}", []))
        owner = self._tree.folder_owner(object_id) if kind == "directories" else None
        if owner is not None:
            principal = "user_name" if "@" in owner else "service_principal_name"
            granted.append({principal: owner, "permission_level": "CAN_MANAGE"})
        return {
            "object_id": f"/{kind}/{object_id}",
            "object_type": kind.removesuffix("s"),
            "access_control_list": [
                {name: value for name, value in entry.items() if name != "permission_level"}
                | {"all_permissions": [{"permission_level": entry["permission_level"], "inherited": False}]}
                for entry in granted
            ],
        }

    def _set_permissions(self, request: Request) -> Any:
        entries = request.json.get("access_control_list", [])
        owners = [entry for entry in entries if entry.get("permission_level") == "IS_OWNER"]
        if request.path["kind"] == "jobs" and len(owners) != 1:
            raise Refused(400, "INVALID_PARAMETER_VALUE", "The job must have exactly one owner.")
        self.permissions[f"/{request.path['kind']}/{request.path['id']}"] = entries
        return self._permissions(request)

    def _now(self) -> str:
        return next(self._clock).isoformat().replace("+00:00", "Z")

    def _now_ms(self) -> int:
        return int(next(self._clock).timestamp() * 1000)


def _stored(request: Request) -> str:
    """A dashboard as a workspace stores it: each dataset contains the catalog and the schema of its queries."""
    content = json.loads(request.json.get("serialized_dashboard") or "{}")
    for dataset in content.get("datasets", []):
        for field in ("catalog", "schema"):
            if f"dataset_{field}" in request.query:
                dataset[field] = request.query[f"dataset_{field}"]
    return json.dumps(content) + "\n"


def _strictly_later() -> Iterator[datetime]:
    """Yields strictly increasing instants; comparing them shows which draft was published last."""
    last = datetime.now(UTC)
    while True:
        last = max(datetime.now(UTC), last + timedelta(microseconds=1))
        yield last
