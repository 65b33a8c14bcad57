"""Options of the Kafka client: KEY=VALUE, with secrets only by reference."""

from typing import Any

import pytest
from pydantic import BaseModel

from sessionization.command_line.options import options_of, task_arguments
from sessionization.command_line.parser import read_settings
from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import LandChangesSettings
from sessionization.settings.kafka_options import parse_kafka_options, resolve_secrets
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.support.command_line import parse
from tests.support.default_streams import STREAMS

KAFKA = ("--source=kafka", "--bootstrap-servers=a:9092,b:9092", "--warehouse=w", "--checkpoints=c")


def refusal(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    with pytest.raises(SystemExit) as exited:
        parse(SessionizeSettings, options, "sessionize")
    assert exited.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    return line.removeprefix("sessionize: ")


def test_kafka_option_may_be_given_several_times() -> None:
    options = ("--kafka-option", "kafka.security.protocol=SASL_SSL", "--kafka-option=kafka.sasl.mechanism=PLAIN")
    settings = parse(SessionizeSettings, (*KAFKA, *options), "sessionize")
    assert settings.kafka.kafka_option == {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    assert settings.kafka.bootstrap_servers == "a:9092,b:9092"
    assert (settings.kafka.starting_offsets, settings.kafka.accept_data_loss) == ("earliest", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hunter2", "is not KEY=VALUE: write it as in kafka.security.protocol=SASL_SSL"),
        ("minPartitions=env:", "minPartitions refers to nothing: write minPartitions=env:NAME or "),
        ("security.protocol=SSL", "security.protocol is unknown: write an option of the Kafka client"),
        ("kafka.bootstrap.servers=x:1", "kafka.bootstrap.servers is set by the job"),
        ("startingOffsets=latest", "startingOffsets is unknown"),
        ("kafka.ssl.truststore.Password=hunter2", "kafka.ssl.truststore.Password is a secret"),
        ("kafka.ssl.key.password=hunter2", "kafka.ssl.key.password is a secret, and others can read a command line"),
        ("kafka.sasl.jaas.config=hunter2", "kafka.sasl.jaas.config is a secret"),
        ('kafka.sasl.jaas.config=a.b.PlainLoginModule required password="hunter2";', "kafka.sasl.jaas.config is a"),
        ("kafka.sasl.jaas.config=a.OAuth required clientId=i clientSecret = hunter2;", "kafka.sasl.jaas.config is a"),
        ("kafka.sasl.jaas.config=a.IAM required awsRoleSessionToken=hunter2;", "kafka.sasl.jaas.config is a secret"),
        ("kafka.sasl.jaas.config=a.IAM required hunter2;", "kafka.sasl.jaas.config is a secret"),
        ('kafka.sasl.jaas.config=a.IAM required a="b" "password"="hunter2";', "kafka.sasl.jaas.config is a secret"),
        ('kafka.sasl.jaas.config=a.IAM required a="x\\" password="hunter2";', "kafka.sasl.jaas.config is a secret"),
    ],
)
def test_a_wrong_option_is_reported_without_its_value(
    capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    line = refusal(capsys, *KAFKA, "--kafka-option", text)
    assert line.startswith(f"--kafka-option {message}")
    assert "hunter2" not in line
    with pytest.raises(ConfigurationError) as error:
        read_settings(LandChangesSettings, (*KAFKA, "--kafka-option", text))
    assert str(error.value) in line


@pytest.mark.parametrize(
    "line",
    [
        "software.amazon.msk.auth.iam.IAMLoginModule required;",
        'shadedmskiam.software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:aws:iam::1:role/a" '
        "awsStsRegion = eu-west-1 ;",
        'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="job" '
        'scope="https://games.servicebus.windows.net/.default" extension_logicalCluster=lkc-1;',
    ],
)
def test_a_jaas_line_without_a_secret_may_be_written_as_it_is(line: str) -> None:
    options = parse_kafka_options([f"kafka.sasl.jaas.config={line}"])
    assert resolve_secrets(options, None) == {"kafka.sasl.jaas.config": line}
    parameter = f"--kafka-option='kafka.sasl.jaas.config={line}' minPartitions=3"
    arguments = task_arguments(options_of(SessionizeSettings), [parameter])
    assert arguments == [f"--kafka-option=kafka.sasl.jaas.config={line}", "--kafka-option=minPartitions=3"]


def test_a_kafka_option_with_the_same_key_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    twice = ("--kafka-option=minPartitions=2", "--kafka-option=minPartitions=3")
    assert "minPartitions is given more than once" in refusal(capsys, *KAFKA, *twice)


@pytest.mark.parametrize("text", ["a b", "..", "a" * 250])
@pytest.mark.parametrize(
    ("model", "options"), [(SessionizeSettings, (*KAFKA, "--sink=kafka")), (LandChangesSettings, KAFKA)]
)
def test_what_is_no_topic_of_changes_is_refused(model: type[BaseModel], options: tuple[str, ...], text: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^--output-topic '{text}' is no topic's name: "):
        read_settings(model, (*options, f"--output-topic={text}"))
    assert read_settings(LandChangesSettings, KAFKA).sink.output_topic == "output_sessions"


@pytest.mark.parametrize("stream", STREAMS)
def test_a_topic_of_the_event_map_takes_no_changes(stream: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^--output-topic '{stream}' is one of the inputs: "):
        read_settings(SessionizeSettings, (*KAFKA, "--sink=kafka", f"--output-topic={stream}"))


def test_references_are_replaced_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAAS", "a b=c;")
    options = parse_kafka_options(["kafka.sasl.jaas.config=env:JAAS", "kafka.ssl.key.password=secret:games/key", "a=b"])
    assert resolve_secrets(options, lambda scope, key: f"{scope}-{key}") == {
        "kafka.sasl.jaas.config": "a b=c;",
        "kafka.ssl.key.password": "games-key",
        "a": "b",
    }


@pytest.mark.parametrize(
    ("value", "secret", "message"),
    [
        ("env:NOT_SET_ANYWHERE", None, "NOT_SET_ANYWHERE is not set: export it"),
        ("secret:games/key", None, "secret scopes are on Databricks only"),
        ("secret:games", lambda *_: "x", "is not a reference: write kafka.ssl.key.password=secret:SCOPE/KEY"),
    ],
)
def test_a_reference_that_cannot_be_resolved_is_refused(value: str, secret: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolve_secrets({"kafka.ssl.key.password": value}, secret)
