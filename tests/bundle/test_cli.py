"""The real CLI accepts every target, strictly; skipped where there is none, for no package registry has it."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tools.bundle.checks import mistakes
from tools.bundle.target import ROOT, TARGETS, resolved

_FOUND = shutil.which("databricks")
# nutter installs the old CLI, which knows no bundles. It is a script, so a script is not the CLI that this test needs.
BINARY = None if _FOUND is None or Path(_FOUND).read_bytes().startswith(b"#!") else _FOUND
pytestmark = pytest.mark.skipif(BINARY is None, reason="no databricks binary on PATH: install the CLI to run these")
PRINCIPAL = "00000000-0000-0000-0000-000000000000"
USER = {"dev": "someone@example.com"}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def host(target: str) -> Iterator[str]:
    """A workspace that knows who signs in, and has every folder."""

    class Workspace(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = USER.get(target, PRINCIPAL)
            self._answer(
                {"id": "1", "userName": name, "displayName": name, "active": True}
                if "scim/v2/Me" in self.path
                else {"object_type": "DIRECTORY", "path": "/", "object_id": 1, "versions": [], "clusters": []}
            )

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer({})

        def _answer(self, body: dict[str, object]) -> None:
            content = json.dumps(body).encode()
            self.send_response(404 if "well-known" in self.path else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_args: object) -> None:
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Workspace)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def project(tmp_path: Path, target: str) -> Path:
    """What the CLI reads of the project, on the branch main, with subscribers to the alerts."""
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "databricks.yml", folder)
    for name in ("bundles", "jobs", "notebooks", "tests/nutter"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "all"], cwd=folder, check=True)
    overrides = folder / f".databricks/bundle/{target}/variable-overrides.json"
    overrides.parent.mkdir(parents=True)
    lists = {"alert_subscriptions": [{"user_email": "lead@studio.example"}]} if target in {"prod", "continuous"} else {}
    values = {"catalog": "main", "node_type": "m6gd.xlarge", "on_call": "on-call@studio.example"} | lists
    overrides.write_text(json.dumps(values))
    return folder


def validate(project: Path, host: str, *words: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_"))
    }
    own = {"DATABRICKS_HOST": host, "DATABRICKS_TOKEN": "none", "HOME": str(project.parent)}
    return subprocess.run(
        [str(BINARY), "bundle", "validate", *words],
        cwd=project,
        env=inherited | own | {"DATABRICKS_CONFIG_FILE": str(project.parent / "none")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_cli_and_the_checks_accept_a_target(project: Path, host: str, target: str) -> None:
    strict = validate(project, host, "--strict", "-t", target)
    assert (strict.returncode, "Validation OK!" in strict.stdout) == (0, True), strict.stdout + strict.stderr
    shown = json.loads(validate(project, host, "-t", target, "-o", "json").stdout)
    assert list(mistakes(resolved(shown, shown))) == []
