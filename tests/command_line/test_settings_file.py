"""The settings file: read by every job, and options win over it."""

import re
from pathlib import Path

import pytest

from sessionization.command_line.parser import read_settings
from sessionization.command_line.settings_file import JOB_SECTIONS, STREAM_SECTIONS
from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import InspectSettings, LandChangesSettings, MaintainSettings
from sessionization.players.players_settings import PlayersSettings
from sessionization.serving.serving_settings import ServingSettings
from sessionization.settings.sessionize_settings import KafkaSource, SessionizeSettings
from sessionization.settings.table_location_settings import CatalogTables, FolderTables

PROD = """
source:
  type: kafka
  bootstrap_servers: a:9092
  kafka_option: {kafka.security.protocol: SASL_SSL, minPartitions: 3}
sink: {type: kafka, output_topic: changes}
tables: {catalog: main, schema: games}
rules:
  heartbeat: 60s
state: {device_groups: 64}
monitoring: {mlflow: off}
run_for: 4h
maintain: {days: 5, input_retention: 2d}
land_changes: {trigger: 10s}
"""


@pytest.fixture
def prod(tmp_path: Path) -> Path:
    file = tmp_path / "prod.yml"
    file.write_text(PROD)
    return file


def test_a_file_is_read_with_the_units_of_its_durations(prod: Path) -> None:
    settings = read_settings(SessionizeSettings, ["--settings", str(prod)])
    assert settings.kafka.kafka_option == {"kafka.security.protocol": "SASL_SSL", "minPartitions": "3"}
    assert (settings.rules.heartbeat_ms, settings.rules.session_timeout_ms) == (60_000, 43_200_000)
    assert settings.run_for_ms == 4 * 3_600_000
    assert (settings.output_topic, settings.state.device_groups, settings.monitoring.mlflow) == ("changes", 64, "off")
    assert settings.tables == CatalogTables(catalog="main", schema="games")


def test_an_option_wins_over_the_file_and_leaves_the_rest_of_its_section(prod: Path) -> None:
    given = ["--heartbeat=5s", "--schema=trial", "--bootstrap-servers=b:1", "--accept-data-loss", "--run-for=2m"]
    settings = read_settings(SessionizeSettings, ["--settings", str(prod), *given])
    assert (settings.rules.heartbeat_ms, settings.run_for_ms) == (5_000, 120_000)
    assert settings.tables == CatalogTables(catalog="main", schema="trial")
    assert settings.kafka.bootstrap_servers == "b:1"
    assert settings.kafka.accept_data_loss
    assert "minPartitions" in settings.kafka.kafka_option


def test_an_option_for_another_kind_of_a_section_replaces_that_section_of_the_file(prod: Path) -> None:
    given = ["--warehouse=w", "--checkpoints=c", "--source=files", "--input=i", "--sink=tables"]
    settings = read_settings(SessionizeSettings, ["--settings", str(prod), *given])
    assert settings.tables == FolderTables(warehouse=Path("w"))
    assert settings.input_folder == Path("i")
    same_kind = read_settings(SessionizeSettings, ["--settings", str(prod), "--source=kafka"])
    assert isinstance(same_kind.source, KafkaSource)


def test_the_other_jobs_read_their_parts_of_it(prod: Path) -> None:
    maintain = read_settings(MaintainSettings, ["--settings", str(prod), "--days=9"])
    assert (maintain.days, maintain.input_retention_ms, maintain.tables) == (
        9,
        172_800_000,
        CatalogTables(catalog="main", schema="games"),
    )
    assert str(maintain.state.checkpoints) == "/Volumes/main/games/checkpoints/sessionize"
    landing = read_settings(LandChangesSettings, ["--settings", str(prod)])
    assert (landing.trigger_ms, landing.sink.output_topic, landing.kafka.bootstrap_servers) == (
        10_000,
        "changes",
        "a:9092",
    )
    assert landing.run_for_ms is None  # the file's is the stream's
    assert str(landing.checkpoints) == "/Volumes/main/games/checkpoints/land_changes"
    inspected = read_settings(InspectSettings, ["--settings", str(prod), "--fullest=1"])
    assert inspected.state.checkpoints == maintain.state.checkpoints


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rulez: {}", "rulez is no section; there are tables, source"),
        ("rules: {heartbeet: 1s}", "rules.heartbeet is not known: there are heartbeat, "),
        ("rules: {heartbeat: 0s}", "rules.heartbeat '0s' is too small: write at least 1ms"),
        ("rules: {heartbeat: 30}", "rules.heartbeat '30' is not a duration: write a number and ms, s, m, h or d"),
        ("rules: 30s", "rules has no fields: write them below it"),
        ("rules:", "rules has no fields: write them below it"),
        ("- rules", "has no sections: write each as NAME:"),
        ("rules: {heartbeat: 1s}\nrules: {}", " line 2: rules is there twice"),
        ("rules: {heartbeat: 1s, heartbeat: 2s}", " line 1: heartbeat is there twice"),
        ("rules: {heartbeat", " line 1: "),
        ("source: {type: ftp}", "source.type 'ftp' is not known: write 'files' or 'kafka'"),
        ("source: {input: i, bootstrap_servers: x}", "source.bootstrap_servers is not for source of the kind files"),
        ("source: {type: kafka, bootstrap_servers: a:1, kafka_option: x}", "source.kafka_option is no mapping: write"),
        (
            "source: {type: kafka, bootstrap_servers: a:1, kafka_option: {kafka.ssl.key.password: hunter2}}",
            "source.kafka_option kafka.ssl.key.password is a secret",
        ),
        ("sink: {type: kafka}", "--sink kafka needs --source kafka"),
        ("maintain: {day: 3}", "day is not known: there are "),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_the_file_and_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "settings.yml"
    file.write_text(text)
    model = MaintainSettings if text.startswith("maintain") else SessionizeSettings
    with pytest.raises(ConfigurationError, match=f"^--settings {file}:? ?{re.escape(message)}") as error:
        read_settings(model, ["--settings", str(file), "--catalog=main", "--schema=games"])
    assert "\n" not in str(error.value)
    assert "hunter2" not in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^--settings .*none.yml cannot be read \(No such file"):
        read_settings(SessionizeSettings, ["--settings", str(tmp_path / "none.yml")])
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="it is not UTF-8"):
        read_settings(SessionizeSettings, ["--settings", str(tmp_path / "bytes.yml")])


def test_an_empty_file_leaves_all_to_the_defaults_and_options(tmp_path: Path) -> None:
    (tmp_path / "empty.yml").write_text("# nothing yet\n")
    given = ["--catalog=main", "--schema=games"]
    assert read_settings(SessionizeSettings, ["--settings", str(tmp_path / "empty.yml"), *given]) == read_settings(
        SessionizeSettings, given
    )


def test_the_sections_of_a_file_are_those_that_the_jobs_read() -> None:
    assert {field.alias for field in SessionizeSettings.model_fields.values()} == set(STREAM_SECTIONS)
    models = (MaintainSettings, LandChangesSettings, PlayersSettings, ServingSettings)
    assert {model.own_section for model in models} == set(JOB_SECTIONS)
