"""The metrics of serve_sessions, as Prometheus gets them."""

import re
from pathlib import Path
from urllib.request import urlopen

from sessionization.clock import wall_clock_ms
from sessionization.serving.serving_metrics import METRICS, PREFIX, serve_metrics
from sessionization.serving.serving_settings import ServingSettings
from sessionization_laptop.server_process import free_ports
from tests.support.waiting import expect_no_line

DOCS = Path(__file__).parents[2] / "docs" / "monitoring.md"


def settings_with(port: int | None) -> ServingSettings:
    return ServingSettings.model_validate({"tables": {"warehouse": "w"}, "postgres": "", "metrics_port": port})


def test_each_metric_is_served_and_has_a_line_on_its_page() -> None:
    [port] = free_ports(1)
    with serve_metrics(settings_with(port), lambda: True, lambda _: None) as note:
        note(3, wall_clock_ms() - 2_000)
        note(2, None)
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            served = answer.read().decode()
    values = dict(re.findall(rf"^{PREFIX}(\w+) (\S+)$", served, re.MULTILINE))
    assert (values["changes_total"], values["waiting"], values["latency_seconds_count"]) == ("5.0", "1.0", "1.0")
    assert 2 <= float(values["latency_seconds_sum"]) < 60
    named = {name for name in METRICS if f"# HELP {PREFIX}{name} " in served}
    assert named == set(METRICS)
    assert all(f"`{name}`" in DOCS.read_text(encoding="utf-8") for name in METRICS)


def test_without_a_port_nothing_is_served() -> None:
    with serve_metrics(settings_with(None), lambda: False, expect_no_line) as note:
        note(1, None)


def test_a_port_that_is_taken_is_said() -> None:
    [port] = free_ports(1)
    lines: list[str] = []
    with (
        serve_metrics(settings_with(port), bool, lambda _: None),
        serve_metrics(settings_with(port), bool, lines.append),
    ):
        pass
    assert [f"--metrics-port {port} of 127.0.0.1 cannot be served" in line for line in lines] == [True]
