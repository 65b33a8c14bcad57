"""The bundle through the real CLI: validate strictly, deploy, deploy again, run, destroy.

No package registry has the CLI. With a `databricks` binary on PATH these tests use a simulated workspace on 127.0.0.1;
without one pytest skips them and reports the reason.
"""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.cli import SUBSCRIBERS, Cli, copy_project, needs_cli, only, override
from tests.bundle.workspace.server import PERSON, PRINCIPAL, Workspace, served
from tools.bundle.given import given_mistakes
from tools.bundle.job_options import JOBS
from tools.bundle.resolve import Resolved, resolve
from tools.bundle.sources import ROOT, read_sources
from tools.bundle.targets import FOR_PLAYERS

pytestmark = needs_cli

MAY_DELETE = ("--auto-approve", "--var", "keep_tables=false")
SYNCED = ("jobs", "notebooks", "tests/nutter")
NOTHING_TO_DO = "Plan: 0 to add, 0 to change, 0 to delete"
EXAMPLES = re.findall(r"```json\n(.*?)```", (ROOT / "docs/deploy.md").read_text(), re.DOTALL)


def everything(workspace: Workspace) -> dict[str, Any]:
    """Everything that a deploy creates, except for its own records."""
    assets, catalog = workspace.assets, workspace.catalog
    sources = {path: content for path, content in workspace.tree.files.items() if "/files/" in path}
    parts = (assets.jobs, assets.dashboards, assets.published, assets.alerts, assets.warehouses)
    parts += (catalog.schemas, catalog.volumes, sources)
    return {str(number): copy.deepcopy(part) for number, part in enumerate((*parts, catalog.grants))}


def counts(resolved: Resolved) -> list[int]:
    """How many resources of each kind a deploy creates, in the order of `everything`; a dashboard is published too."""
    kinds = ("jobs", "dashboards", "dashboards", "alerts", "sql_warehouses", "schemas", "volumes")
    return [len(resolved.resources.get(kind, {})) for kind in kinds]


def count_grants(resolved: Resolved) -> int:
    """How many resources have grants."""
    return sum(bool(fields.get("grants")) for by_key in resolved.resources.values() for fields in by_key.values())


def resource_keys(resolved: Resolved) -> set[str]:
    return {key for by_key in resolved.resources.values() for key in by_key}


def test_validate_reports_nothing(project: Path, workspace: Workspace, target: str) -> None:
    result = Cli(project, workspace, {})("bundle", "validate", "--strict", "-t", target)
    assert "Validation OK!" in result.out
    assert not result.errors
    assert not any(word in result.out for word in ("Error", "Warning", "Recommendation")), result.out


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_of_the_docs_are_valid(project: Path, example: str) -> None:
    values = {"alert_subscriptions": SUBSCRIBERS} | json.loads(example)
    override(project, "prod", **values)
    with served(Workspace(values.get("service_principal", PRINCIPAL))) as workspace:
        result = Cli(project, workspace)("bundle", "validate", "--strict", "-t", "prod")
    assert not result.errors


def test_a_second_deploy_changes_nothing_and_destroy_deletes_everything(cli: Cli, target: str, tmp_path: Path) -> None:
    workspace = cli.workspace
    cli("bundle", "deploy", "-t", target)
    deployed = everything(workspace)
    synced = [file for folder in SYNCED for file in (cli.project / folder).iterdir() if file.is_file()]
    resolved = resolve(read_sources(ROOT), target)
    assert [len(kind) for kind in deployed.values()] == [*counts(resolved), len(synced), count_grants(resolved)]
    assert "${" not in json.dumps(list(workspace.assets.jobs.values())), "a reference was not put in"

    summary = cli("bundle", "summary", "-t", target).out
    assert set(re.findall(r"^    (\w+):$", summary, re.MULTILINE)) == resource_keys(resolved)
    assert "not deployed" not in summary

    # Every deploy writes its own records, and the same bytes of the wheel. A clone cannot know which files exist
    # already, so it writes them again.
    records = (
        "/workspace/mkdirs",
        "/workspace/delete",
        "/state/",
        "/artifacts/",
        "/permissions/directories/",
        "/telemetry-ext",
    )
    clone = Cli(copy_project(tmp_path / "elsewhere/project"), workspace)
    for again, allowed in ((cli, records), (clone, (*records, "/files/"))):
        assert NOTHING_TO_DO in again("bundle", "plan", "-t", target).out
        result = again("bundle", "deploy", "-t", target)
        sent = [(method, path) for method, path, _ in result.calls if method not in {"GET", "HEAD"}]
        assert [call for call in sent if not any(part in call[1] for part in allowed)] == []
        assert everything(workspace) == deployed

    assert "--auto-approve" in cli.refused("bundle", "destroy", "-t", target, *MAY_DELETE[1:]).errors
    assert everything(workspace) == deployed
    cli("bundle", "destroy", "-t", target, *MAY_DELETE)
    assert not any(everything(workspace)[str(number)] for number in range(8))
    assert workspace.tree.files == {}
    assert "No active deployment" in cli("bundle", "destroy", "-t", target, *MAY_DELETE).everything


@only(*FOR_PLAYERS)
def test_no_command_deletes_the_players_tables_by_default(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target)
    deployed = everything(cli.workspace)
    for words in (("destroy",), ("deploy", "--var", "schema=other")):
        result = cli.refused("bundle", *words, "-t", target, "--auto-approve")
        for name in ("schemas.sessions", "volumes.checkpoints", "volumes.landing", "volumes.logs"):
            assert f"resources.{name} has lifecycle.prevent_destroy set" in result.errors
        assert everything(cli.workspace) == deployed
    cli("bundle", "destroy", "-t", target, *MAY_DELETE)
    assert not cli.workspace.catalog.schemas


@only("prod")
def test_a_deploy_with_another_schema_needs_approval(cli: Cli) -> None:
    cli("bundle", "deploy", "-t", "prod")
    deployed = everything(cli.workspace)
    words = ("--var", "schema=other", *MAY_DELETE[1:])
    assert "destructive actions" in cli.refused("bundle", "deploy", "-t", "prod", *words).errors
    assert everything(cli.workspace) == deployed


@only(*FOR_PLAYERS)
def test_a_deploy_for_players_needs_an_address_for_failures(
    project: Path, workspace: Workspace, target: str, tmp_path: Path
) -> None:
    """A service principal has no mailbox. A person who deploys gets the mails unless `on_call` is another address."""
    errors = Cli(project, workspace, {}).refused("bundle", "deploy", "-t", target).errors
    assert f"nobody would hear of failures, for '{PRINCIPAL}' is no mail address" in errors
    assert "--var on_call=ADDRESS" in errors
    assert not workspace.assets.jobs
    for person, variables in ((PERSON, {}), (PRINCIPAL, {"on_call": "o'brien@studio.example"})):
        with served(Workspace(person)) as own_workspace:
            Cli(copy_project(tmp_path / person), own_workspace, variables)("bundle", "deploy", "-t", target)
        address = variables.get("on_call", PERSON)
        for job in own_workspace.assets.jobs.values():
            assert job["settings"]["email_notifications"]["on_failure"] == [address]
        for alert in own_workspace.assets.alerts.values():
            assert alert["evaluation"]["notification"]["subscriptions"] == SUBSCRIBERS
            assert alert["schedule"]["pause_status"] == "UNPAUSED"


@only("staging")
def test_changed_code_gets_another_wheel_and_the_old_wheel_stays(cli: Cli, target: str) -> None:
    def wheels() -> set[str]:
        libraries = [library for job in cli.workspace.assets.jobs.values() for task in job["settings"]["tasks"]
                     for library in task["libraries"]]  # fmt: skip
        return {library["whl"] for library in libraries if "whl" in library}

    cli("bundle", "deploy", "-t", target)
    old = wheels()
    (old_wheel,) = {wheel for wheel in old if "simulator" not in wheel}
    code = cli.project / "lib/sessionization/errors.py"
    code.write_text(code.read_text() + "\n# other code\n")
    cli("bundle", "deploy", "-t", target)
    new = wheels()
    assert len(old) == len(new) == 2, "of the library and of the simulator"
    assert old - new == {old_wheel}
    stored = {path.rpartition("/")[2] for path in cli.workspace.tree.files if path.endswith(".whl")}
    assert stored == {wheel.rpartition("/")[2] for wheel in old | new}
    cli("bundle", "destroy", "-t", target, *MAY_DELETE)
    assert cli.workspace.tree.files == {}


@only("dev", "prod")
def test_variables_reach_the_workspace(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target, "--var", "rocksdb_memory_mb=512", "--var", "collectors=game-collectors")
    jobs = [job["settings"] for job in cli.workspace.assets.jobs.values()]
    (cluster,) = next(job["job_clusters"] for job in jobs if "sessionize" in job["name"])
    memory_key = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"
    assert cluster["new_cluster"]["spark_conf"][memory_key] == "512"
    granted = {kind: grants.get("game-collectors") for kind, grants in cli.workspace.catalog.grants.items()}
    assert sorted(map(sorted, filter(None, granted.values()))) == [["READ_VOLUME", "WRITE_VOLUME"], ["USE_SCHEMA"]]


@only("dev", "staging")
def test_a_run_takes_parameters(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target)
    result = cli("bundle", "run", "sessionize", "-t", target, "--no-wait", "--params", "run-for=1h")
    run = cli.workspace.assets.runs[-1]
    assert run["run_name"].endswith(f"sessionize {target}")
    assert run["overriding_parameters"] == {"job_parameters": {"run-for": "1h"}}
    assert run["run_page_url"] in result.everything


@only("prod", "continuous")
def test_a_deploy_from_another_branch_is_refused(tmp_path: Path, workspace: Workspace, target: str) -> None:
    cli = Cli(copy_project(tmp_path / "project", "feature"), workspace)
    errors = cli.refused("bundle", "deploy", "-t", target).errors
    for part in ("not on the right Git branch", "main", "feature"):
        assert part in errors
    assert workspace.tree.files == {}
    cli("bundle", "deploy", "-t", target, "--var", "prod_branch=feature")


@only("staging", "prod", "continuous")
def test_a_deploy_as_a_person_without_admin_rights_is_refused(project: Path, target: str) -> None:
    with served(Workspace(PERSON, is_admin=False)) as workspace:
        errors = Cli(project, workspace).refused("bundle", "deploy", "-t", target).errors
        assert PERSON in errors
        assert PRINCIPAL in errors
        assert workspace.tree.files == {}
        assert not workspace.assets.jobs


@only("prod")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--var", "nodetype=x"], "variable nodetype has not been defined"),
        (["--var", "workers=many"], 'cannot parse "many" as an integer'),
    ],
)
def test_the_cli_names_a_wrong_variable(cli: Cli, words: list[str], message: str) -> None:
    assert message in cli.refused("bundle", "validate", "--strict", "-t", "prod", *words).errors


@only("dev", "prod")
def test_the_checks_read_a_resolved_target_before_a_deploy(cli: Cli, target: str) -> None:
    words = ("bundle", "validate", "-t", target, "-o", "json")
    assert given_mistakes(json.loads(cli(*words).out)) == []
    mistakes = given_mistakes(json.loads(cli(*words, "--var", "sessionize_heartbeat=30sec").out))
    # One for each job that has the stream's options.
    with_heartbeat = {key for key, job in JOBS.items() if "heartbeat" in job.model.model_fields}
    assert {mistake.partition(":")[0] for mistake in mistakes} == with_heartbeat
    assert all("--heartbeat '30sec'" in mistake for mistake in mistakes)


@only("dev")
@pytest.mark.parametrize(
    "missing", ["notebooks/02_sessionize.ipynb", "jobs/simulate.py", "bundles/session_overview.lvdash.json", "Makefile"]
)
def test_the_cli_names_a_missing_file(cli: Cli, missing: str) -> None:
    (cli.project / missing).unlink()
    errors = cli.refused("bundle", "deploy", "-t", "dev").errors
    assert (missing if missing != "Makefile" else "No rule to make target 'wheel'") in errors
    assert not cli.workspace.assets.jobs
