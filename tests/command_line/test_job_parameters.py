"""Options from a Databricks job: widgets and task arguments mean the same as a command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from sessionization.command_line import parser
from sessionization.command_line.job_parameters import parameter_defaults, parameters_to_arguments, task_arguments
from sessionization.command_line.widgets import make_widgets, read_widgets
from sessionization.durations import Duration
from sessionization.errors import ConfigurationError
from sessionization.settings.sessionize_settings import SessionizeSettings


class Options(BaseModel):
    """Do a thing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["files", "kafka"] = Field("files", description="from where")
    run_for: Duration | None = Field(None, description="how long")
    kafka_option: tuple[str, ...] = Field((), description="options", json_schema_extra={"repeatable": True})
    schema_name: str | None = Field(None, alias="schema", description="in which schema")
    dry: bool = Field(default=False, description="only look")
    fast: bool = Field(default=True, description="do not wait")
    output: Path | None = Field(None, description="where")


class JobWidgets:
    """Stands in for `dbutils.widgets` with some values set by a job; a widget's label is its name."""

    def __init__(self, **given: str) -> None:
        self.made: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._given = {name.replace("_", "-"): text for name, text in given.items()}

    def text(self, name: str, defaultValue: str, label: str) -> None:  # noqa: N803
        assert label == name
        self.made[name] = (defaultValue, ())

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str) -> None:  # noqa: N803
        assert label == name
        self.made[name] = (defaultValue, tuple(choices))

    def get(self, name: str) -> str:
        return self._given.get(name, self.made[name][0])


def test_every_option_is_a_parameter_with_its_default() -> None:
    assert parameter_defaults(Options) == {
        "source": "files", "run-for": "", "kafka-option": "", "schema": "", "dry": "false", "fast": "true",
        "output": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ({}, []),
        ({"source": "files", "run-for": "", "dry": "false", "fast": "true"}, []),
        ({"source": "kafka", "run-for": " 2m "}, ["--source=kafka", "--run-for=2m"]),
        ({"dry": "true", "fast": "false"}, ["--dry", "--no-fast"]),
        ({"kafka-option": "a=1  b='x y'"}, ["--kafka-option=a=1", "--kafka-option=b=x y"]),
        ({"output": "/Volumes/a b"}, ["--output=/Volumes/a b"]),
    ],
)
def test_a_parameter_is_an_option_and_an_empty_one_is_left_out(
    parameters: dict[str, str], arguments: list[str]
) -> None:
    assert parameters_to_arguments(Options, parameters) == arguments


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"dry": "yes"}, "--dry 'yes' is neither true nor false"), ({"kafka-option": "a='1"}, "close the quotes")],
)
def test_an_invalid_parameter_is_refused(parameters: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parameters_to_arguments(Options, parameters)


def test_empty_task_arguments_are_left_out_and_the_others_stay() -> None:
    arguments = ["--source=kafka", "--run-for=", "--dry=true", "--kafka-option=", "--unknown=1", "--output", "here"]
    assert task_arguments(Options, arguments) == ["--source=kafka", "--dry", "--unknown=1", "--output", "here"]


def test_the_command_line_refuses_a_repeated_task_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse_settings(Options, task_arguments(Options, ["--source=kafka", "--source=files"]), "job")
    assert "--source is given more than once" in capsys.readouterr().err


def test_only_a_task_may_give_empty_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["job.py", "--run-for=", "--source=kafka", "--fast=false"])
    with pytest.raises(SystemExit):
        parser.parse_settings(Options, None, "job")
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    assert parser.parse_settings(Options, None, "job") == Options(source="kafka", fast=False)


def test_every_option_is_a_widget_and_is_read_from_it() -> None:
    widgets = JobWidgets(source="kafka", run_for="2m", dry="true", kafka_option="a=1 b=2", schema="games")
    make_widgets(Options, widgets)
    assert {name: default for name, (default, _) in widgets.made.items()} == parameter_defaults(Options)
    assert {name: choices for name, (_, choices) in widgets.made.items() if choices} == {
        "source": ("files", "kafka"), "dry": ("false", "true"), "fast": ("false", "true"),
    }  # fmt: skip
    assert read_widgets(Options, widgets) == Options(
        source="kafka", run_for=120_000, dry=True, kafka_option=("a=1", "b=2"), schema="games"
    )


def test_a_wrong_widget_is_reported_in_one_line_without_a_program_name() -> None:
    widgets = JobWidgets(catalog="main", schema="games", checkpoints="/c", input="/i", heartbeat="0s")
    make_widgets(SessionizeSettings, widgets)
    with pytest.raises(
        ConfigurationError,
        match=r"^in the widgets, each named as its option: --heartbeat '0s' is too small: write at least 1ms$",
    ):
        read_widgets(SessionizeSettings, widgets)


def test_the_streams_parameter_defaults_mean_the_command_lines_defaults() -> None:
    given = {"catalog": "main", "schema": "games", "checkpoints": "/c", "input": "/i"}
    expected = parser.read_settings(SessionizeSettings, [f"--{name}={text}" for name, text in given.items()])
    assert (
        parser.read_settings(
            SessionizeSettings,
            parameters_to_arguments(SessionizeSettings, parameter_defaults(SessionizeSettings) | given),
        )
        == expected
    )


def test_a_task_that_succeeded_does_not_raise_system_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    parser.run(lambda: 0, "job")
    with pytest.raises(SystemExit) as exited:
        parser.run(lambda: 3, "job")
    assert exited.value.code == 3
