"""A token for Lakebase, the Postgres of Databricks: `--password call:sessionization.serving.lakebase:token`.

Tokens expire after an hour, and Lakebase asks for one at the login alone.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from sessionization.errors import ConfigurationError


def token(parameters: Mapping[str, Any]) -> str:
    """A new token of this identity for the instance whose address is the `host` of the connection."""
    from databricks.sdk import WorkspaceClient

    databases = WorkspaceClient().database
    for instance in databases.list_database_instances():
        if parameters.get("host") in {instance.read_write_dns, instance.read_only_dns}:
            request = str(uuid.uuid4())
            credential = databases.generate_database_credential(instance_names=[str(instance.name)], request_id=request)
            return str(credential.token)
    msg = f"--postgres: no Lakebase instance of this workspace has the host {parameters.get('host')}"
    raise ConfigurationError(msg)
