"""`python -m tools.bundle` reports wrong values that the CLI accepts silently."""

import io
import json
from typing import Any

import pytest

from tests.bundle.given_target import given
from tools.bundle import __main__ as command
from tools.bundle.given import given_mistakes

SECRET_IN_PLAIN = "kafka.sasl.jaas.config=hunter2"


@pytest.mark.parametrize("target", ["dev", "staging", "prod", "continuous"])
def test_the_defaults_have_no_mistake(target: str) -> None:
    assert given_mistakes(given(target)) == []


KAFKA = {"sessionize_source": "kafka", "sessionize_input": "", "sessionize_bootstrap_servers": "b-1.example:9096"}
REAL_TIME = {"sessionize_mode": "real-time", "sessionize_sink": "kafka", "sessionize_trigger": "1m"}
ON_THE_CLUSTER = {"real_time_enabled": "true", "arrow_batch_rows": "1"}


def nodes(**by_cloud: Any) -> dict[str, Any]:
    """The variable `node_attributes`, null for each cloud that is not given."""
    return {"node_attributes": {"aws": None, "azure": None, "gcp": None} | by_cloud}


ON_AWS = {"node_type": "m6gd.xlarge"}
AWS_ON_DEMAND = nodes(aws={"availability": "ON_DEMAND"})


@pytest.mark.parametrize(
    "more",
    [
        {},
        ON_AWS,
        REAL_TIME | ON_THE_CLUSTER | ON_AWS | AWS_ON_DEMAND,
        REAL_TIME | ON_THE_CLUSTER | ON_AWS | {"cluster_policy": "on-demand"},
        REAL_TIME | ON_THE_CLUSTER | {"node_type": "", "instance_pool": "on-demand"},
        REAL_TIME | ON_THE_CLUSTER | {"node_type": "Standard_D4ads_v5"},
        REAL_TIME | ON_THE_CLUSTER | {"node_type": "n2-highmem-4"} | nodes(gcp={"availability": "ON_DEMAND_GCP"}),
    ],
)
def test_the_documented_kafka_and_real_time_values_have_no_mistake(more: dict[str, str]) -> None:
    assert given_mistakes(given(**KAFKA | more)) == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"sessionize_heartbeat": "30sec"}, "sessionize: the parameters are refused: --heartbeat '30sec'"),
        ({"sessionize_source": "kafka"}, "--source kafka needs --bootstrap-servers"),
        (
            KAFKA | {"sessionize_mode": "real-time"},
            "sessionize: the parameters are refused: --mode real-time needs --sink kafka",
        ),
        (
            KAFKA | REAL_TIME,
            "realTimeMode.enabled is 'false', but with mode real-time real_time_enabled must be 'true'",
        ),
        (
            {"real_time_enabled": "true"},
            "realTimeMode.enabled is 'true', but with mode micro-batch real_time_enabled must be",
        ),
        (
            KAFKA | REAL_TIME | ON_THE_CLUSTER | ON_AWS,
            "cluster stream: with mode real-time its workers must be on-demand",
        ),
        (
            KAFKA | REAL_TIME | ON_THE_CLUSTER | ON_AWS | nodes(aws={"availability": "SPOT_WITH_FALLBACK"}),
            "must be on-demand, not SPOT_WITH_FALLBACK: set node_attributes",
        ),
        (
            KAFKA | REAL_TIME | ON_THE_CLUSTER | nodes(azure={"availability": "SPOT_AZURE"}),
            "must be on-demand, not SPOT_AZURE: set node_attributes",
        ),
        ({"sessionize_kafka_option": SECRET_IN_PLAIN}, "sessionize: the parameters are refused"),
        ({"maintain_days": "many"}, "maintain: the parameters are refused: --days 'many'"),
        ({"restart_schedule": "0 0 * * * ?"}, "sessionize: quartz_cron_expression '0 0 * * * ?' leaves 60 minutes"),
        ({"alert_schedule": "0/5 * * * ?"}, "backlog: cron '0/5 * * * ?' has 5 fields"),
        ({"notify_emails": []}, "prod: nobody hears of a failed run of maintain"),
        ({"alert_subscriptions": []}, "prod: nobody hears of the alerts"),
        ({"alert_subscriptions": [{"user_email": "1111-2222"}]}, "alerts: the subscriber {'user_email': '1111-2222'}"),
        ({"alert_pause_status": "PAUSED"}, "alerts: its subscribers would hear nothing"),
        ({"keep_tables": False}, "prod: keep_tables must be true"),
        (
            {"sessionize_input": "/Volumes/main/games/landing"},
            "maintain: it would delete files of /Volumes/main/games/landing",
        ),
    ],
)
def test_a_wrong_value_is_reported(variables: dict[str, Any], expected: str) -> None:
    found = given_mistakes(given(**variables))
    assert any(mistake.startswith(expected) or expected in mistake for mistake in found), found


@pytest.mark.parametrize(
    ("text", "code", "expected"),
    [
        (json.dumps(given()), 0, ""),
        (json.dumps(given(sessionize_heartbeat="30sec")), 1, "'30sec'"),
        ("Error: no target\n", 2, "is not what"),
    ],
)
def test_the_exit_code_and_stderr_report_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, code: int, expected: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert command.main() == code
    assert expected in capsys.readouterr().err
