"""A copy of the project, and a simulated workspace per target, for the tests with the real CLI."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundle.cli import Cli, copy_project
from tests.bundle.workspace.server import PERSON, PRINCIPAL, Workspace, served

IDENTITY = {"dev": PERSON, "staging": PRINCIPAL, "prod": PRINCIPAL, "continuous": PRINCIPAL}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_project(tmp_path / "project")


@pytest.fixture(params=IDENTITY)
def target(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def workspace(target: str) -> Iterator[Workspace]:
    with served(Workspace(IDENTITY[target])) as running:
        yield running


@pytest.fixture
def cli(project: Path, workspace: Workspace) -> Cli:
    return Cli(project, workspace)
