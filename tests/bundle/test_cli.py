"""The bundle through the real CLI, where there is one: validate strictly, deploy, deploy again, run, destroy.

The CLI comes from no package registry. With a `databricks` binary on PATH these tests talk to a workspace of their own on
127.0.0.1; without one they are skipped, and say so. They deploy with the CLI's default engine, `direct`.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.cli import BINARY, Cli, copy_project
from tests.bundle.workspace.assets import WAREHOUSE
from tests.bundle.workspace.server import PERSON, PRINCIPAL, Workspace, served
from tools.bundle.given import given_mistakes
from tools.bundle.resolve import Resolved, resolve
from tools.bundle.sources import ROOT, read_sources

pytestmark = pytest.mark.skipif(BINARY is None, reason="no databricks binary on PATH: install the CLI to run these")

IDENTITY = {"dev": PERSON, "staging": PRINCIPAL, "prod": PRINCIPAL, "continuous": PRINCIPAL}
FOR_PLAYERS = ("prod", "continuous")
MAY_DELETE = ("--auto-approve", "--var", "keep_tables=false")
SYNCED = ("jobs", "notebooks", "tests/nutter")
NOTHING_TO_DO = "Plan: 0 to add, 0 to change, 0 to delete"
EXAMPLES = re.findall(r"```json\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.DOTALL)


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


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("target", names, indirect=True)


def everything(workspace: Workspace) -> dict[str, Any]:
    """What a deploy makes, the notes that it takes aside."""
    assets, catalog = workspace.assets, workspace.catalog
    sources = {path: content for path, content in workspace.tree.files.items() if "/files/" in path}
    parts = (assets.jobs, assets.dashboards, assets.published, assets.alerts, catalog.schemas, catalog.volumes, sources)
    return {str(number): copy.deepcopy(part) for number, part in enumerate((*parts, catalog.grants))}


def counts(written: Resolved) -> list[int]:
    """How many resources of each kind a deploy makes, in the order of `everything`; a dashboard is published too."""
    kinds = ("jobs", "dashboards", "dashboards", "alerts", "schemas", "volumes")
    return [len(written.resources.get(kind, {})) for kind in kinds]


def granted(written: Resolved) -> int:
    """How many resources have grants."""
    return sum(bool(fields.get("grants")) for of_kind in written.resources.values() for fields in of_kind.values())


def names(written: Resolved) -> set[str]:
    return {key for of_kind in written.resources.values() for key in of_kind}


def override(project: Path, target: str, **values: Any) -> None:
    file = project / f".databricks/bundle/{target}/variable-overrides.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(values))


def test_validate_is_silent(project: Path, workspace: Workspace, target: str) -> None:
    told = Cli(project, workspace, {})("bundle", "validate", "--strict", "-t", target)
    assert "Validation OK!" in told.out
    assert not told.errors
    assert not any(word in told.out for word in ("Error", "Warning", "Recommendation")), told.out


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_docs_are_valid(project: Path, example: str) -> None:
    values = json.loads(example) | {"warehouse_name": WAREHOUSE["name"]}
    override(project, "prod", **values)
    with served(Workspace(values.get("service_principal", PRINCIPAL))) as workspace:
        told = Cli(project, workspace)("bundle", "validate", "--strict", "-t", "prod")
    assert not told.errors


def test_deploy_again_and_destroy(cli: Cli, target: str, tmp_path: Path) -> None:
    workspace = cli.workspace
    cli("bundle", "deploy", "-t", target)
    made = everything(workspace)
    synced = [file for folder in SYNCED for file in (cli.project / folder).iterdir() if file.is_file()]
    written = resolve(read_sources(ROOT), target)
    assert [len(kind) for kind in made.values()] == [*counts(written), len(synced), granted(written)]
    assert "${" not in json.dumps(list(workspace.assets.jobs.values())), "a reference was not put in"

    summary = cli("bundle", "summary", "-t", target).out
    assert set(re.findall(r"^    (\w+):$", summary, re.MULTILINE)) == names(written)
    assert "not deployed" not in summary

    # What a deploy writes whatever has changed: its notes, and the wheel, the same bytes. A clone does not know which files
    # are there already.
    notes = (
        "/workspace/mkdirs",
        "/workspace/delete",
        "/state/",
        "/artifacts/",
        "/permissions/directories/",
        "/telemetry-ext",
    )
    clone = Cli(copy_project(tmp_path / "elsewhere/project"), workspace)
    for again, allowed in ((cli, notes), (clone, (*notes, "/files/"))):
        assert NOTHING_TO_DO in again("bundle", "plan", "-t", target).out
        told = again("bundle", "deploy", "-t", target)
        sent = [(method, path) for method, path, _ in told.calls if method not in {"GET", "HEAD"}]
        assert [call for call in sent if not any(part in call[1] for part in allowed)] == []
        assert everything(workspace) == made

    assert "--auto-approve" in cli.refused("bundle", "destroy", "-t", target, *MAY_DELETE[1:]).errors
    assert everything(workspace) == made
    cli("bundle", "destroy", "-t", target, *MAY_DELETE)
    assert not any(everything(workspace)[str(number)] for number in range(7))
    assert workspace.tree.files == {}
    assert "No active deployment" in cli("bundle", "destroy", "-t", target, *MAY_DELETE).everything


@only(*FOR_PLAYERS)
def test_the_players_tables_are_kept(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target)
    made = everything(cli.workspace)
    for words in (("destroy",), ("deploy", "--var", "schema=other")):
        told = cli.refused("bundle", *words, "-t", target, "--auto-approve")
        for name in ("schemas.sessions", "volumes.checkpoints", "volumes.landing"):
            assert f"resources.{name} has lifecycle.prevent_destroy set" in told.errors
        assert everything(cli.workspace) == made
    cli("bundle", "destroy", "-t", target, *MAY_DELETE)
    assert not cli.workspace.catalog.schemas


@only("prod")
def test_another_schema_for_running_tables_is_asked_about(cli: Cli) -> None:
    cli("bundle", "deploy", "-t", "prod")
    made = everything(cli.workspace)
    words = ("--var", "schema=other", *MAY_DELETE[1:])
    assert "destructive actions" in cli.refused("bundle", "deploy", "-t", "prod", *words).errors
    assert everything(cli.workspace) == made


@only(*FOR_PLAYERS)
def test_a_deploy_for_players_asks_who_hears_of_failures(
    project: Path, workspace: Workspace, target: str, tmp_path: Path
) -> None:
    """A service principal has no mailbox; a person who deploys is told, unless somebody else is named."""
    told = Cli(project, workspace, {}).refused("bundle", "deploy", "-t", target).errors
    assert f"nobody would hear of failures, for '{PRINCIPAL}' is no mail address" in told
    assert "--var on_call=ADDRESS" in told
    assert not workspace.assets.jobs
    for person, variables in ((PERSON, {}), (PRINCIPAL, {"on_call": "o'brien@studio.example"})):
        with served(Workspace(person)) as theirs:
            Cli(copy_project(tmp_path / person), theirs, variables)("bundle", "deploy", "-t", target)
        address = variables.get("on_call", PERSON)
        for job in theirs.assets.jobs.values():
            assert job["settings"]["email_notifications"]["on_failure"] == [address]
        for alert in theirs.assets.alerts.values():
            assert alert["evaluation"]["notification"]["subscriptions"] == [{"user_email": address}]


@only("staging")
def test_other_code_has_another_name_and_a_running_job_keeps_its_own(cli: Cli, target: str) -> None:
    def wheels() -> set[str]:
        libraries = [library for job in cli.workspace.assets.jobs.values() for task in job["settings"]["tasks"]
                     for library in task["libraries"]]  # fmt: skip
        return {library["whl"] for library in libraries if "whl" in library}

    cli("bundle", "deploy", "-t", target)
    (before,) = wheels()
    code = cli.project / "lib/sessionization/errors.py"
    code.write_text(code.read_text() + "\n# other code\n")
    cli("bundle", "deploy", "-t", target)
    (after,) = wheels()
    assert before != after
    kept = {path.rpartition("/")[2] for path in cli.workspace.tree.files if path.endswith(".whl")}
    assert kept == {before.rpartition("/")[2], after.rpartition("/")[2]}
    cli("bundle", "destroy", "-t", target, *MAY_DELETE)
    assert cli.workspace.tree.files == {}


@only("dev", "prod")
def test_what_variables_say_reaches_the_workspace(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target, "--var", "rocksdb_memory_mb=512", "--var", "collectors=game-collectors")
    jobs = [job["settings"] for job in cli.workspace.assets.jobs.values()]
    (cluster,) = next(job["job_clusters"] for job in jobs if "sessionize" in job["name"])
    bound = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"
    assert cluster["new_cluster"]["spark_conf"][bound] == "512"
    granted = {kind: grants.get("game-collectors") for kind, grants in cli.workspace.catalog.grants.items()}
    assert sorted(map(sorted, filter(None, granted.values()))) == [["READ_VOLUME", "WRITE_VOLUME"], ["USE_SCHEMA"]]


@only("dev", "staging")
def test_a_run_takes_parameters(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target)
    told = cli("bundle", "run", "sessionize", "-t", target, "--no-wait", "--params", "run-for=1h")
    [run] = cli.workspace.assets.runs
    assert run["run_name"].endswith(f"sessionize {target}")
    assert run["overriding_parameters"] == {"job_parameters": {"run-for": "1h"}}
    assert run["run_page_url"] in told.everything


@only("prod", "continuous")
def test_another_branch_is_refused(tmp_path: Path, workspace: Workspace, target: str) -> None:
    cli = Cli(copy_project(tmp_path / "project", "feature"), workspace)
    told = cli.refused("bundle", "deploy", "-t", target).errors
    for part in ("not on the right Git branch", "main", "feature"):
        assert part in told
    assert workspace.tree.files == {}
    cli("bundle", "deploy", "-t", target, "--var", "prod_branch=feature")


@only("staging", "prod", "continuous")
def test_another_identity_is_refused(project: Path, target: str) -> None:
    with served(Workspace(PERSON, is_admin=False)) as workspace:
        told = Cli(project, workspace).refused("bundle", "deploy", "-t", target).errors
        assert PERSON in told
        assert PRINCIPAL in told
        assert workspace.tree.files == {}
        assert not workspace.assets.jobs


@only("prod")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--var", "nodetype=x"], "variable nodetype has not been defined"),
        (["--var", "workers=many"], 'cannot parse "many" as an integer'),
        (["--var", "warehouse_name=Nowhere"], "failed to resolve warehouse: Nowhere"),
    ],
)
def test_a_wrong_variable_is_named(cli: Cli, words: list[str], message: str) -> None:
    assert message in cli.refused("bundle", "validate", "--strict", "-t", "prod", *words).errors


@only("dev", "prod")
def test_what_it_puts_together_can_be_looked_at_before_a_deploy(cli: Cli, target: str) -> None:
    words = ("bundle", "validate", "-t", target, "-o", "json")
    assert given_mistakes(json.loads(cli(*words).out)) == []
    (mistake,) = given_mistakes(json.loads(cli(*words, "--var", "sessionize_heartbeat=30sec").out))
    assert "--heartbeat '30sec'" in mistake


@only("dev")
@pytest.mark.parametrize(
    "missing", ["notebooks/02_sessionize.ipynb", "jobs/simulate.py", "bundles/session_overview.lvdash.json", "Makefile"]
)
def test_a_missing_file_is_named(cli: Cli, missing: str) -> None:
    (cli.project / missing).unlink()
    told = cli.refused("bundle", "deploy", "-t", "dev").errors
    assert (missing if missing != "Makefile" else "No rule to make target 'wheel'") in told
    assert not cli.workspace.assets.jobs
