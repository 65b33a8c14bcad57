"""A token for Lakebase is one of the endpoint that the connection names."""

from types import SimpleNamespace
from unittest.mock import create_autospec

import databricks.sdk
import pytest
from databricks.sdk.service.postgres import (
    Branch,
    DatabaseCredential,
    Endpoint,
    EndpointHosts,
    EndpointStatus,
    PostgresAPI,
    Project,
)

from sessionization.errors import ConfigurationError
from sessionization.serving.lakebase import token


def endpoint(name: str, host: str | None) -> Endpoint:
    return Endpoint(name=name, status=EndpointStatus(hosts=EndpointHosts(host=host)) if host else None)


@pytest.fixture(autouse=True)
def _workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    api = create_autospec(PostgresAPI, instance=True)
    api.list_projects.return_value = [Project(name="projects/a"), Project(name="projects/b")]
    api.list_branches.side_effect = lambda parent: [Branch(name=f"{parent}/branches/production")]
    api.list_endpoints.side_effect = lambda parent: [
        endpoint(f"{parent}/endpoints/new", None),
        endpoint(f"{parent}/endpoints/primary", f"{parent.split('/')[1]}.example"),
    ]
    api.generate_database_credential.side_effect = lambda endpoint: DatabaseCredential(token=f"of {endpoint}")
    monkeypatch.setattr(databricks.sdk, "WorkspaceClient", lambda: SimpleNamespace(postgres=api))


def test_the_endpoint_is_found_by_its_host() -> None:
    assert token({"host": "b.example", "user": "a"}) == "of projects/b/branches/production/endpoints/primary"


@pytest.mark.parametrize("parameters", [{"host": "c.example"}, {}])
def test_another_host_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no Lakebase endpoint that this identity sees has the host"):
        token(parameters)
