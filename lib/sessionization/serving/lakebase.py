"""A token for Lakebase, the Postgres of Databricks: `--password call:sessionization.serving.lakebase:token`.

Tokens expire after an hour, and Lakebase asks for one at the login alone.
"""

from collections.abc import Mapping
from typing import Any

from sessionization.errors import ConfigurationError


def token(parameters: Mapping[str, Any]) -> str:
    """A new token of this identity for the endpoint whose address is the `host` of the connection."""
    from databricks.sdk import WorkspaceClient

    postgres = WorkspaceClient().postgres
    for project in postgres.list_projects():
        for branch in postgres.list_branches(str(project.name)):
            for endpoint in postgres.list_endpoints(str(branch.name)):
                hosts = endpoint.status and endpoint.status.hosts
                if hosts and hosts.host == parameters.get("host"):
                    return str(postgres.generate_database_credential(str(endpoint.name)).token)
    msg = f"--postgres: no Lakebase endpoint that this identity sees has the host {parameters.get('host')}"
    raise ConfigurationError(msg)
