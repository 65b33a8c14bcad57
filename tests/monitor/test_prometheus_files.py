"""The alerts for Prometheus agree with the bundle's, and rules and dashboard read only metrics that exist."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from sessionization.job.metrics import METRICS, PREFIX
from tests.support import monitored
from tests.support.prometheus_files import (
    ALERTS,
    OF_PROMETHEUS,
    PANELS,
    RECORDED,
    RULE_GROUPS,
    RULES,
    RULES_FILE,
    bundle_limits,
    groupings_in,
    names_in,
    queries,
)

LIMITS = bundle_limits()
EVENINGS = Path(__file__).with_name("prometheus_rules.test.yml")


@pytest.fixture(scope="module")
def served() -> dict[str, set[str]]:
    """All time series that a job can have, by name with the names of their labels."""
    families = monitored.served(monitored.metrics_of(*monitored.one_of_each_query()))
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def test_every_alert_of_the_bundle_is_one_of_prometheus_with_the_same_limit() -> None:
    assert LIMITS.keys() == ALERTS.keys()
    assert {name: f"sessionization:{limit.column} > {limit.value:g}" for name, limit in LIMITS.items()} == ALERTS
    assert {f"sessionization:{limit.column}" for limit in LIMITS.values()} <= RECORDED.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_the_dashboard_shows_every_alert_red_from_its_limit_on(name: str) -> None:
    (panel,) = [panel for panel in PANELS if panel["title"] == f"Alert: {name.replace('_', ' ')}"]
    assert [names_in(target["expr"]).keys() for target in panel["targets"]] == [
        {f"sessionization:{LIMITS[name].column}"}
    ]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, LIMITS[name].value]


@pytest.mark.parametrize("name", LIMITS)
def test_an_alert_names_its_section_of_the_runbook(name: str) -> None:
    (rule,) = [rule for rule in RULES if rule.get("alert") == name]
    assert rule["annotations"]["summary"].endswith(f"docs/runbook.md, Alert {name.replace('_', ' ')}")


@pytest.mark.parametrize("query", queries())
def test_a_query_reads_only_series_and_labels_that_exist(query: str, served: dict[str, set[str]]) -> None:
    selected = names_in(query)
    assert selected
    known: set[str] = set()
    for name, labels in selected.items():
        assert name in served or name in RECORDED, f"{name} is neither served nor recorded"
        its_labels = served.get(name, {"query"}) | OF_PROMETHEUS
        assert labels <= its_labels, name
        known |= its_labels
    assert groupings_in(query) <= known


def test_every_metric_is_on_the_dashboard() -> None:
    read = {name for panel in PANELS for target in panel["targets"] for name in names_in(target["expr"])}
    shown = {re.sub(r"_bucket$", "", name).removeprefix(PREFIX) for name in read if name.startswith(PREFIX)}
    assert shown == METRICS.keys()


def test_rules_are_recorded_before_a_rule_of_their_group_reads_them() -> None:
    so_far: set[str] = set()
    for group in RULE_GROUPS:
        assert group.keys() == {"name", "interval", "rules"}
        for rule in group["rules"]:
            assert {name for name in names_in(rule["expr"]) if ":" in name} <= so_far
            so_far.add(rule.get("record", ""))


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no program promtool on PATH")
@pytest.mark.parametrize(
    "words", [["check", "rules", "--lint-fatal", str(RULES_FILE)], ["test", "rules", str(EVENINGS)]]
)
def test_promtool_accepts_the_rules_and_they_fire_in_the_evenings_that_they_are_for(words: list[str]) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
