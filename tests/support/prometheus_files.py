"""The rules and the dashboard for Prometheus, read as the tests of both need them."""

import json
import re
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML

from tools.bundle.target import ROOT, read_bundle

RULES_FILE, DASHBOARD_FILE = (
    ROOT / "monitoring" / "prometheus_rules.yml",
    ROOT / "monitoring" / "grafana_dashboard.json",
)
RULE_GROUPS: list[dict[str, Any]] = YAML(typ="safe").load(RULES_FILE)["groups"]
RULES = [rule for group in RULE_GROUPS for rule in group["rules"]]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
ALERTS = {rule["alert"]: rule["expr"] for rule in RULES if "alert" in rule}
DASHBOARD: dict[str, Any] = json.loads(DASHBOARD_FILE.read_text(encoding="utf-8"))
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus or a histogram adds."""
_SELECTOR = re.compile(r"\b(sessionization[_:][\w:]+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|on) \(([^)]*)\)")
_VARIABLE = re.compile(r"\$(?!__)\w+")


@dataclass(frozen=True, slots=True)
class Limit:
    """When an alert of the bundle goes off: its query's column, and the value that it must exceed by default."""

    column: str
    value: float


def bundle_limits() -> dict[str, Limit]:
    """The limits of the bundle's alerts, by the alert's name."""
    evaluations = {key: alert["evaluation"] for key, alert in read_bundle()["resources"]["alerts"].items()}
    return {
        key: Limit(evaluation["source"]["name"], float(evaluation["threshold"]["value"]["double_value"]))
        for key, evaluation in evaluations.items()
    }


def queries() -> list[str]:
    """Every expression of the rules and of the dashboard, the dashboard's variables replaced as Grafana does."""
    of_panels = [target["expr"] for panel in PANELS for target in panel["targets"]]
    on_all = [_VARIABLE.sub(".+", query.replace("$__rate_interval", "2m")) for query in of_panels]
    return [rule["expr"] for rule in RULES] + on_all


def names_in(query: str) -> dict[str, set[str]]:
    """The time series that a query selects, by name with the labels in their selectors."""
    found: dict[str, set[str]] = {}
    for name, matchers in _SELECTOR.findall(query):
        found.setdefault(name, set()).update(re.findall(r"(\w+)(?:=~|!~|!=|=)", matchers))
    return found


def served_names() -> set[str]:
    """The time series that the job must serve, so that every query has what it selects."""
    return {name for query in queries() for name in names_in(query)} - RECORDED.keys()


def groupings_in(query: str) -> set[str]:
    """The labels that a query groups or joins by."""
    return {label.strip() for labels in _GROUPING.findall(query) for label in labels.split(",")}
