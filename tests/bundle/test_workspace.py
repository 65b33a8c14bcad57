"""The simulated workspace gives the answers that Databricks' own client and the CLI expect."""

import base64
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import nullcontext
from urllib.parse import quote

import pytest
from databricks.sdk import WorkspaceClient
from databricks.sdk.errors import BadRequest, NotFound, PermissionDenied, ResourceAlreadyExists
from databricks.sdk.service import catalog, dashboards, iam, jobs, sql
from databricks.sdk.service.workspace import ImportFormat

from tests.bundle.workspace.server import PERSON, Workspace, served

HOME = f"/Workspace/Users/{PERSON}"


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    with served(Workspace()) as running:
        yield running


@pytest.fixture
def client(workspace: Workspace) -> WorkspaceClient:
    return WorkspaceClient(host=workspace.host, token="none")


def put(client: WorkspaceClient, path: str, content: bytes) -> None:
    client.workspace.import_(path, content=base64.b64encode(content).decode(), format=ImportFormat.AUTO)


def test_the_client_sees_its_own_user_and_groups(client: WorkspaceClient) -> None:
    me = client.current_user.me()
    assert me.user_name == PERSON
    assert "session-operators" in {group.display for group in me.groups}


def test_a_file_needs_its_folder_and_can_be_read_back(client: WorkspaceClient) -> None:
    path = f"{HOME}/.bundle/state/resources.json"
    with pytest.raises(NotFound, match="parent folder"):
        put(client, path, b"{}")
    client.workspace.mkdirs(f"{HOME}/.bundle/state")
    put(client, path, b"{}")
    assert client.workspace.get_status(path).object_type.value == "FILE"
    assert client.workspace.download(path).read() == b"{}"
    assert [entry.path for entry in client.workspace.list(f"{HOME}/.bundle/state")] == [path]
    with pytest.raises(Exception, match="not empty"):
        client.workspace.delete(f"{HOME}/.bundle")
    client.workspace.delete(f"{HOME}/.bundle", recursive=True)
    with pytest.raises(NotFound):
        client.workspace.get_status(path)


def test_a_file_can_be_imported_in_the_clis_way(workspace: Workspace, client: WorkspaceClient) -> None:
    """The whole path is one escaped word. A second file of the same name is refused: it is the deploy's lock."""

    def post(path: str, overwrite: str) -> int:
        endpoint = f"{workspace.host}/api/2.0/workspace-files/import-file"
        url = f"{endpoint}/{quote(path.lstrip('/'), safe='')}?overwrite={overwrite}"
        request = urllib.request.Request(url, data=b"\x00lock", method="POST")
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    lock = f"{HOME}/deploy.lock"
    assert [post(lock, "false"), post(lock, "false"), post(lock, "true")] == [200, 409, 200]
    assert post(f"{HOME}/nowhere/deploy.lock", "false") == 404
    assert client.workspace.download(lock).read() == b"\x00lock"
    assert post(f"{HOME}/02_sessionize.ipynb", "true") == 200
    assert client.workspace.get_status(f"{HOME}/02_sessionize").object_type.value == "NOTEBOOK"


def test_a_request_may_have_a_chunked_body(workspace: Workspace, client: WorkspaceClient) -> None:
    connection = http.client.HTTPConnection(workspace.host.removeprefix("http://"))
    path = f"/api/2.0/workspace-files/import-file/{quote(HOME.lstrip('/') + '/big', safe='')}?overwrite=true"
    connection.request("POST", path, body=iter([b"one ", b"two"]), encode_chunked=True)
    assert connection.getresponse().read() == b"{}"
    connection.request("GET", "/api/2.0/preview/scim/v2/Me")
    assert connection.getresponse().status == 200, "the connection goes on with the next request"
    assert client.workspace.download(f"{HOME}/big").read() == b"one two"


def test_a_job_can_be_created_changed_and_deleted(client: WorkspaceClient) -> None:
    created = client.jobs.create(
        name="sessionize",
        max_concurrent_runs=1,
        tasks=[jobs.Task(task_key="t", notebook_task=jobs.NotebookTask(notebook_path="/n"))],
    )
    settings = client.jobs.get(created.job_id).settings
    assert (settings.name, settings.tasks[0].task_key, settings.max_concurrent_runs) == ("sessionize", "t", 1)
    client.jobs.reset(created.job_id, jobs.JobSettings(name="other"))
    assert not client.jobs.get(created.job_id).settings.tasks
    client.jobs.update(created.job_id, new_settings=jobs.JobSettings(name="third"))
    assert [job.settings.name for job in client.jobs.list()] == ["third"]
    client.jobs.delete(created.job_id)
    with pytest.raises(NotFound):
        client.jobs.get(created.job_id)


def test_a_run_stores_its_parameters(workspace: Workspace, client: WorkspaceClient) -> None:
    created = client.jobs.create(name="sessionize")
    run_id = client.jobs.run_now(created.job_id, job_parameters={"run-for": "1h"}).run_id
    assert client.jobs.get_run(run_id).job_id == created.job_id
    assert workspace.assets.runs[0]["overriding_parameters"] == {"job_parameters": {"run-for": "1h"}}


def test_a_volume_needs_its_schema_and_is_deleted_with_it(client: WorkspaceClient) -> None:
    def volume() -> catalog.VolumeInfo:
        return client.volumes.create("main", "games", "checkpoints", catalog.VolumeType.MANAGED)

    with pytest.raises(NotFound, match=r"main\.games"):
        volume()
    client.schemas.create("Games", "main")
    assert client.schemas.get("main.games").owner == PERSON
    assert volume().full_name == "main.games.checkpoints"
    client.files.create_directory("/Volumes/main/games/checkpoints/sessionize")
    client.schemas.delete("main.games", force=True)
    with pytest.raises(NotFound):
        client.volumes.read("main.games.checkpoints")
    with pytest.raises(NotFound):
        client.files.get_directory_metadata("/Volumes/main/games/checkpoints/sessionize")


def test_an_existing_schema_or_volume_is_not_created_again(client: WorkspaceClient) -> None:
    """An earlier deploy may have lost its records, or another may use the name, in upper or lower case."""
    created = client.schemas.create("games", "main", comment="the first")
    with pytest.raises(BadRequest, match="Schema 'games' already exists"):
        client.schemas.create("Games", "main")
    assert client.schemas.get("main.games") == created
    volume = client.volumes.create("main", "games", "landing", catalog.VolumeType.MANAGED)
    client.files.create_directory("/Volumes/main/games/landing/pc_sessions")
    with pytest.raises(BadRequest, match="Volume 'landing' already exists"):
        client.volumes.create("main", "games", "Landing", catalog.VolumeType.MANAGED)
    assert client.volumes.read("main.games.landing") == volume
    client.files.get_directory_metadata("/Volumes/main/games/landing/pc_sessions")
    client.schemas.create("games", "other")
    client.schemas.delete("main.games", force=True)
    assert client.schemas.create("games", "main").schema_id != created.schema_id


def test_grants_can_be_added_and_removed(client: WorkspaceClient) -> None:
    def change(add: list[catalog.Privilege], remove: list[catalog.Privilege]) -> list[str]:
        changed = client.grants.update(
            "schema", "main.games", changes=[catalog.PermissionsChange(principal="readers", add=add, remove=remove)]
        )
        return [privilege.value for entry in changed.privilege_assignments or [] for privilege in entry.privileges]

    use, select, everything = catalog.Privilege.USE_SCHEMA, catalog.Privilege.SELECT, catalog.Privilege.ALL_PRIVILEGES
    assert change([use, select], []) == ["SELECT", "USE_SCHEMA"]
    assert change([use], [everything]) == ["USE_SCHEMA"]
    assert change([], [everything]) == []


def test_a_publication_is_newer_than_its_draft(client: WorkspaceClient) -> None:
    content = json.dumps({"datasets": [{"name": "d"}]})
    draft = dashboards.Dashboard(display_name="Sessions", serialized_dashboard=content, parent_path=f"{HOME}/resources")
    with pytest.raises(NotFound):
        client.lakeview.create(draft)
    client.workspace.mkdirs(f"{HOME}/resources")
    created = client.lakeview.create(draft, dataset_catalog="main", dataset_schema="games")
    assert json.loads(created.serialized_dashboard)["datasets"] == [{"name": "d", "catalog": "main", "schema": "games"}]
    published = client.lakeview.publish(created.dashboard_id, embed_credentials=False)
    assert published.revision_create_time > created.update_time
    changed = client.lakeview.update(created.dashboard_id, dashboards.Dashboard(display_name="Games"))
    assert (changed.display_name, changed.etag != created.etag) == ("Games", True)
    client.lakeview.trash(created.dashboard_id)
    with pytest.raises(NotFound):
        client.lakeview.get(created.dashboard_id)


def test_an_alert_is_stored_as_sent(client: WorkspaceClient) -> None:
    source = sql.AlertV2OperandColumn(name="age")
    alert = sql.AlertV2(
        display_name="stale",
        query_text="SELECT 1",
        warehouse_id="w",
        schedule=sql.CronSchedule("0 0/5 * * * ?", "UTC"),
        evaluation=sql.AlertV2Evaluation(source, sql.ComparisonOperator.GREATER_THAN),
    )
    created = client.alerts_v2.create_alert(alert)
    assert client.alerts_v2.get_alert(created.id).evaluation.source.name == "age"
    alert.display_name = "older"
    client.alerts_v2.update_alert(created.id, alert, "*")
    assert client.alerts_v2.get_alert(created.id).display_name == "older"
    client.alerts_v2.trash_alert(created.id)
    with pytest.raises(NotFound):
        client.alerts_v2.get_alert(created.id)


def test_a_job_has_one_owner(client: WorkspaceClient) -> None:
    owner = iam.AccessControlRequest(user_name=PERSON, permission_level=iam.PermissionLevel.IS_OWNER)
    viewer = iam.AccessControlRequest(group_name="readers", permission_level=iam.PermissionLevel.CAN_VIEW)
    with pytest.raises(Exception, match="exactly one owner"):
        client.permissions.set("jobs", "1", access_control_list=[viewer])
    client.permissions.set("jobs", "1", access_control_list=[owner, viewer])
    granted = client.permissions.get("jobs", "1").access_control_list
    assert {entry.group_name or entry.user_name for entry in granted} == {PERSON, "readers"}


def test_a_home_folder_belongs_to_its_user(client: WorkspaceClient) -> None:
    folder = client.workspace.get_status(HOME)
    granted = client.permissions.get("directories", str(folder.object_id)).access_control_list
    assert [(entry.user_name, entry.all_permissions[0].permission_level.value) for entry in granted] == [
        (PERSON, "CAN_MANAGE")
    ]


def test_only_an_administrator_writes_in_another_home() -> None:
    for is_admin in (True, False):
        with served(Workspace(is_admin=is_admin)) as workspace:
            client = WorkspaceClient(host=workspace.host, token="none")
            with nullcontext() if is_admin else pytest.raises(PermissionDenied, match="home of other@example"):
                client.workspace.mkdirs("/Workspace/Users/other@example.com/.bundle")


def test_a_warehouse_is_changed_and_deleted(client: WorkspaceClient) -> None:
    created = client.warehouses.create(name="queries", auto_stop_mins=1).bind()
    assert (created["id"], client.warehouses.get(created["id"]).auto_stop_mins) == (created["id"], 1)
    client.warehouses.edit(created["id"], auto_stop_mins=10)
    assert client.warehouses.get(created["id"]).auto_stop_mins == 10
    client.warehouses.delete(created["id"])
    with pytest.raises(NotFound):
        client.warehouses.get(created["id"])


def test_an_unknown_request_is_refused_and_recorded(workspace: Workspace) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{workspace.host}/api/2.0/pipelines")
    assert refused.value.code == 501
    assert workspace.unknown_calls == [("GET", "/api/2.0/pipelines")]


def test_the_server_listens_on_this_machine_only(workspace: Workspace) -> None:
    assert workspace.host.startswith("http://127.0.0.1:")


def test_the_client_reports_that_a_file_exists_already(client: WorkspaceClient) -> None:
    put(client, f"{HOME}/f.txt", b"1")
    with pytest.raises(ResourceAlreadyExists):
        put(client, f"{HOME}/f.txt", b"2")
