"""Options from a Databricks job: widgets and task arguments mean the same as a command line."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from sessionization.command_line import parser
from sessionization.command_line.options import options_of, task_arguments
from sessionization.command_line.widgets import make_widgets, read_widgets
from sessionization.errors import ConfigurationError
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.command_line.example import Options
from tests.support import command_line

OPTIONS = options_of(Options)


class JobWidgets:
    """Stands in for `dbutils.widgets` with some values set by a job."""

    def __init__(self, **given: str) -> None:
        self.labels: dict[str, str] = {}
        self.choices: dict[str, tuple[str, ...]] = {}
        self._given = {name.replace("_", "-"): text for name, text in given.items()}

    def text(self, name: str, defaultValue: str, label: str) -> None:  # noqa: N803
        assert defaultValue == ""
        self.labels[name] = label

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str) -> None:  # noqa: N803
        assert defaultValue in choices
        self.labels[name], self.choices[name] = label, tuple(choices)

    def get(self, name: str) -> str:
        assert name in self.labels
        return self._given.get(name, "")


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        ("--source= --run-for= --dry=", []),
        ("--source=kafka --run-for=2m", ["--source=kafka", "--run-for=2m"]),
        ("--dry=true --fast=false --dry=yes", ["--dry", "--no-fast", "--dry=yes"]),
        ("--unknown=1 --output here", ["--unknown=1", "--output", "here"]),
    ],
)
def test_a_parameter_is_an_option_an_empty_one_is_left_out_and_other_words_stay(
    parameters: str, arguments: list[str]
) -> None:
    assert task_arguments(OPTIONS, parameters.split()) == arguments


def test_a_text_holds_the_values_of_an_option_that_may_be_repeated() -> None:
    assert task_arguments(OPTIONS, ["--kafka-option=a=1  b='x y'", "--output= /Volumes/a b ", "--run-for= "]) == [
        "--kafka-option=a=1", "--kafka-option=b=x y", "--output=/Volumes/a b",
    ]  # fmt: skip
    with pytest.raises(ConfigurationError, match=r"^--kafka-option: .* close the quotes"):
        task_arguments(OPTIONS, ["--kafka-option=a='1"])


def test_only_a_task_may_give_empty_options(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["--output=o", "--run-for=", "--source=kafka", "--fast=false"]
    with pytest.raises(SystemExit):
        command_line.parse(Options, argv, "job")
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    assert command_line.parse(Options, argv, "job") == Options(output=Path("o"), source="kafka", fast=False)


def test_every_option_is_a_widget_that_shows_its_default_and_is_read_from_it() -> None:
    widgets = JobWidgets(output="o", source="kafka", run_for="2m", fast="false", kafka_option="a=1 b=2", schema="games")
    make_widgets(Options, widgets)
    assert widgets.labels == {
        "output": "output", "heartbeat": "heartbeat (30s)", "run-for": "run-for", "max-things": "max-things",
        "share": "share (0.5)", "source": "source (files)", "colour": "colour (red)", "kafka-option": "kafka-option",
        "schema": "schema", "dry": "dry (false)", "fast": "fast (true)",
    }  # fmt: skip
    assert widgets.choices == {
        "source": ("", "files", "kafka"), "colour": ("", "red", "blue"),
        "dry": ("", "false", "true"), "fast": ("", "false", "true"),
    }  # fmt: skip
    assert read_widgets(Options, widgets) == Options(
        output=Path("o"), source="kafka", run_for=120_000, fast=False, kafka_option=("a=1", "b=2"), schema="games"
    )


def test_a_wrong_widget_is_reported_in_one_line_without_a_program_name() -> None:
    widgets = JobWidgets(catalog="main", schema="games", heartbeat="0s")
    make_widgets(SessionizeSettings, widgets)
    with pytest.raises(
        ConfigurationError,
        match=r"^in the widgets, each named as its option: --heartbeat '0s' is too small: write at least 1ms$",
    ):
        read_widgets(SessionizeSettings, widgets)


def test_a_task_that_succeeded_does_not_raise_system_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.2")
    parser.run(lambda: 0, "job")
    with pytest.raises(SystemExit) as exited:
        parser.run(lambda: 3, "job")
    assert exited.value.code == 3
