"""The runbook gives each alert's meaning, its query and the first three steps for the person on call."""

import re

import pytest

from sessionization.job.metrics import METRICS, PREFIX
from tools.bundle.target import ROOT, read_bundle

RUNBOOK, MONITORING = ((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("runbook.md", "monitoring.md"))
_SECTION = re.compile(r"^### Alert: (.+?)\n(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
SECTIONS = dict(_SECTION.findall(RUNBOOK))


ALERTS = read_bundle()["resources"]["alerts"]


def section(key: str) -> str:
    return SECTIONS[key.replace("_", " ")]


def test_every_alert_has_a_section_and_every_section_has_an_alert() -> None:
    assert SECTIONS.keys() == {key.replace("_", " ") for key in ALERTS}
    assert all(fields["display_name"].endswith(f": {key.replace('_', ' ')}") for key, fields in ALERTS.items())


@pytest.mark.parametrize("key", ALERTS)
def test_a_section_has_the_meaning_the_query_and_three_steps(key: str) -> None:
    match = re.fullmatch(r"\s*(.+?)\s*```sql\n(.+?)```\s*(.+?)\s*", section(key), re.DOTALL)
    meaning, query, steps = match.groups()  # type: ignore[union-attr]
    assert len(meaning.split()) >= 20
    alert_query = re.sub(r"`[^`]*`\.`[^`]*`\.", "", ALERTS[key]["query_text"])
    assert query.strip() == alert_query.strip()
    assert re.findall(r"^(\d)\. \S", steps, re.MULTILINE) == ["1", "2", "3"]


@pytest.mark.parametrize("key", ALERTS)
def test_a_section_says_from_which_value_on_the_alert_goes_off(key: str) -> None:
    evaluation = ALERTS[key]["evaluation"]
    threshold = evaluation["threshold"]["value"]["double_value"]
    assert f"goes off above {evaluation['source']['name']} {threshold}" in " ".join(section(key).lower().split())


def test_the_documentation_names_every_metric_and_no_other() -> None:
    table = MONITORING.partition("\n## Metrics for Prometheus")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert listed == METRICS.keys()
    assert {name.removeprefix(PREFIX) for name in re.findall(rf"\b{PREFIX}\w+", RUNBOOK)} - {""} <= METRICS.keys()
