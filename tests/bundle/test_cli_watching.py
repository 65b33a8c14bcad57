"""Through the real CLI: who hears of alerts, what they ask, and preflight at the first deploy."""

from tests.bundle.cli import Cli, needs_cli, only, override
from tools.bundle.targets import FOR_PLAYERS

pytestmark = needs_cli


@only(*FOR_PLAYERS)
def test_a_deploy_for_players_names_who_hears_of_alerts(cli: Cli, target: str) -> None:
    override(cli.project, target)
    errors = cli.refused("bundle", "deploy", "-t", target).errors
    assert "no value assigned to required variable alert_subscriptions" in errors
    assert not cli.workspace.assets.jobs


@only("dev", "staging")
def test_alerts_of_a_target_without_subscribers_are_paused(cli: Cli, target: str) -> None:
    cli("bundle", "deploy", "-t", target)
    alerts = list(cli.workspace.assets.alerts.values())
    assert {alert["schedule"]["pause_status"] for alert in alerts} == {"PAUSED"}


@only("dev", "prod")
def test_dashboard_and_alerts_ask_the_bundles_warehouse_or_another(cli: Cli, target: str) -> None:
    """Who may create no warehouse deletes its file."""
    assets = cli.workspace.assets

    def asked() -> set[str]:
        return {thing["warehouse_id"] for things in (assets.alerts, assets.dashboards) for thing in things.values()}

    cli("bundle", "deploy", "-t", target)
    [(own, warehouse)] = assets.warehouses.items()
    assert asked() == {own}
    assert (warehouse["auto_stop_mins"], warehouse["enable_serverless_compute"]) == (1, True)
    assert {"group_name": "users", "permission_level": "CAN_USE"} in assets.permissions[f"/sql/warehouses/{own}"]
    (cli.project / "bundles/session_queries.sql_warehouse.yml").unlink()
    cli("bundle", "deploy", "-t", target, "--var", "warehouse_id=abc", "--auto-approve")
    assert asked() == {"abc"}
    assert assets.warehouses == {}


@only("staging", "prod")
def test_a_deploy_runs_preflight_until_it_succeeds_once(cli: Cli, target: str) -> None:
    cli.workspace.assets.run_result = "FAILED"
    for _ in range(2):
        assert "resources.job_runs.first_preflight" in cli.refused("bundle", "deploy", "-t", target).errors
    cli.workspace.assets.run_result = "SUCCESS"
    for _ in range(2):
        cli("bundle", "deploy", "-t", target)
    started = [call for call in cli.workspace.calls if call[1].endswith("/jobs/run-now")]
    assert len(started) == 3
    [run] = cli.workspace.assets.runs
    assert run["run_name"] == f"preflight {target}"
