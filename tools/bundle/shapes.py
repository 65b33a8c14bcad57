"""Checks of each resource's fields, required fields and enums against Databricks' published models."""

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from databricks.bundles.alerts import Alert
from databricks.bundles.dashboards import Dashboard
from databricks.bundles.job_runs import JobRun
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.sql_warehouses import SqlWarehouse
from databricks.bundles.volumes import Volume

from tools.bundle.resolve import Resolved
from tools.bundle.sources import Finding, Sources

MODELS: dict[str, Any] = {
    "jobs": Job,
    "job_runs": JobRun,
    "schemas": Schema,
    "volumes": Volume,
    "dashboards": Dashboard,
    "alerts": Alert,
    "sql_warehouses": SqlWarehouse,
}
FIELDS_OF = {kind: {field.name for field in fields(model)} for kind, model in MODELS.items()}

_ID = re.compile(r"<(resources\.\w+\.\w+\.id)>")
_RUNTIME = re.compile(r"(\d+)\.(?:\d+|x)(?:\.x)?(?:-\w+)?-scala2\.13")
_OLDEST_RUNTIME = 18


def shape_findings(sources: Sources, target: Resolved) -> Iterator[Finding]:
    for kind, by_key in target.resources.items():
        for key, resource in by_key.items():
            file = sources.file_of(kind, key)
            if kind not in MODELS:
                yield Finding(file, f"{kind} is not a kind of resource that this bundle has")
                continue
            try:
                # An id that a deploy gives is a number in a model that knows it, or a reference.
                MODELS[kind].from_dict({name: _ID.sub(r"${\1}", value) if isinstance(value, str) else value
                                        for name, value in resource.items()})  # fmt: skip
            except (TypeError, ValueError) as error:
                yield Finding(file, f"{kind}.{key} is not one: {error}")
            yield from _grants(file, resource)
            if kind == "jobs":
                yield from _runtimes(file, resource)


def _grants(file: str, resource: dict[str, Any]) -> Iterator[Finding]:
    for grant in resource.get("grants", []):
        if not grant.get("principal") or not grant.get("privileges"):
            yield Finding(file, f"the grant {grant} needs a principal and privileges")


def _runtimes(file: str, job: dict[str, Any]) -> Iterator[Finding]:
    """Check the runtime's version: the CLI accepts any text."""
    for cluster in job.get("job_clusters", []):
        version = str(cluster.get("new_cluster", {}).get("spark_version", ""))
        match = _RUNTIME.fullmatch(version)
        if match is None or int(match[1]) < _OLDEST_RUNTIME:
            yield Finding(file, f"spark_version {version!r} is not a Databricks Runtime from {_OLDEST_RUNTIME} on")
