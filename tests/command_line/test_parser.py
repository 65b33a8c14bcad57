"""The command line that all jobs share: help, values, one-line errors; widgets and task arguments mean the same."""

import errno
import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sessionization.command_line import parser
from sessionization.command_line.options import options_of, task_arguments
from sessionization.command_line.widgets import make_widgets, read_widgets
from sessionization.durations import Duration
from sessionization.errors import ConfigurationError
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.support import command_line


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Options(BaseModel):
    """Do a thing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    output: Path = Field(description="where to write", json_schema_extra={"metavar": "DIR"})
    heartbeat: Annotated[Duration, Field(ge=1)] = Field(30_000, description="how often")
    run_for: Duration | None = Field(None, description="how long")
    max_things: int | None = Field(None, ge=1, le=9, description="how many")
    share: float = Field(0.5, ge=0, le=1, allow_inf_nan=False, description="how much: 100% is 1")
    source: Literal["files", "kafka"] = Field("files", description="from where")
    colour: Colour = Field(Colour.RED, description="which")
    kafka_option: tuple[str, ...] = Field((), description="options", json_schema_extra={"repeatable": True})
    schema_name: str | None = Field(None, alias="schema", description="in which schema")
    dry: bool = Field(default=False, description="only look")
    fast: bool = Field(default=True, description="do not wait")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.dry and self.schema_name:
            msg = "--dry and --schema contradict each other: leave one out"
            raise ValueError(msg)
        return self


def parse(*argv: str) -> Options:
    return command_line.parse(Options, argv, "job")


def test_every_option_reaches_its_field() -> None:
    options = parse(
        *("--output=a b", "--heartbeat", "10s", "--run-for=2m", "--max-things", "3", "--share=.25"),
        *("--source", "kafka", "--colour", "blue", "--schema", "games", "--no-fast"),
    )
    assert options.output == Path("a b")
    assert (options.heartbeat, options.run_for, options.max_things, options.share) == (10_000, 120_000, 3, 0.25)
    assert (options.source, options.colour, options.schema_name) == ("kafka", Colour.BLUE, "games")
    assert (options.dry, options.fast) == (False, False)
    assert parse("--output", "a", "--dry").dry


def test_text_is_read_verbatim_and_the_environment_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("heartbeat", "HEARTBEAT", "JOB_HEARTBEAT"):
        monkeypatch.setenv(name, "1s")
    options = parse("--output", "[x]", "--schema", "None")
    assert (options.output, options.schema_name, options.heartbeat) == (Path("[x]"), "None", 30_000)


def test_help_shows_each_option_with_its_default_and_description(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        parse("--help")
    assert exited.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for text in (
        "Usage: job",
        "Do a thing.",
        "--output DIR where to write [required]",
        "--heartbeat DURATION how often [default: 30s]",
        "--run-for DURATION how long",
        "--max-things N how many",
        "--share X how much: 100% is 1 [default: 0.5]",
        "--source files|kafka from where [default: files]",
        "--colour red|blue which [default: red]",
        "--kafka-option",
        "--schema TEXT in which schema",
        "--dry / --no-dry only look",
        "--fast / --no-fast do not wait",
    ):
        assert text in shown


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--output=a --heartbeat abc", "--heartbeat 'abc' is not a duration: write a number and ms, s, m, h or d"),
        ("--heartbeat abc", "--heartbeat 'abc' is not a duration"),
        ("--output=a --heartbeat 0s", "--heartbeat '0s' is too small: write at least 1ms"),
        ("--output=a --run-for -5s", "--run-for '-5s' is not a duration"),
        ("--output=a --max-things x", "--max-things 'x' does not fit: input should be a valid integer"),
        ("--output=a --max-things 10", "--max-things '10' does not fit: input should be less than or equal to 9"),
        ("--output=a --source ftp", "--source 'ftp' is not known: write 'files' or 'kafka'"),
        ("--output=a --colour green", "--colour 'green' is not known: write 'red' or 'blue'"),
        ("--output=a --dry --schema s", "--dry and --schema contradict each other: leave one out"),
        ("", "--output is missing: give it, as in --output DIR"),
        ("--output=", "--output '' is empty: give it a value"),
        ("--output", "Option '--output' requires an argument (job --help"),
        ("--output=a --dry=yes", "Option '--dry' does not take a value"),
        ("--output=a --heart 1s", "No such option"),
        ("--output=a --schema_name s", "No such option"),
        ("--output=a extra words", "words that belong to no option: quote a value that holds spaces (job --help"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(argv: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        parse(*argv.split())
    assert exited.value.code == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.startswith(f"job: {line}")
    assert captured.err.count("\n") == 1


def test_a_value_with_line_breaks_still_makes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (("--output", "a", "--share", "1\n2"), ("--output", "a", "b\nc"), ("--out\nput", "a")):
        with pytest.raises(SystemExit):
            parse(*argv)
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigurationError("folder 'x'\ncannot be written"), 2, "job: folder 'x' cannot be written\n"),
        (OSError(errno.ESTALE, "Stale file handle", "/mnt/x"), 1, "job: /mnt/x cannot be used (Stale file handle): "),
        (KeyboardInterrupt(), 0, ""),
    ],
)
def test_run_prints_an_error_in_one_line(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def main() -> int:
        raise error

    with pytest.raises(SystemExit) as exited:
        parser.run(main, "job")
    assert exited.value.code == code
    assert capsys.readouterr().err.startswith(line)


def test_a_warning_of_the_log_has_the_name_of_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])

    def main() -> int:
        logging.getLogger("sessionization.part").warning("a log was not cleaned up")
        return 0

    with pytest.raises(SystemExit):
        parser.run(main, "job")
    assert capsys.readouterr().err == "job: a log was not cleaned up\n"


OPTIONS = options_of(Options)


def widgets_with(**given: str) -> Mock:
    """Stands in for `dbutils.widgets` with some values set by a job; it records which are made."""
    texts = {name.replace("_", "-"): text for name, text in given.items()}
    return Mock(get=lambda name: texts.get(name, ""))


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
    widgets = widgets_with(
        output="o", source="kafka", run_for="2m", fast="false", kafka_option="a=1 b=2", schema="games"
    )
    make_widgets(Options, widgets)
    dropdowns = [call.args for call in widgets.dropdown.call_args_list]
    made = [call.args for call in widgets.text.call_args_list] + dropdowns
    assert {default for _, default, *_ in made} == {""}
    assert {name: label for name, *_, label in made} == {
        "output": "output", "heartbeat": "heartbeat (30s)", "run-for": "run-for", "max-things": "max-things",
        "share": "share (0.5)", "source": "source (files)", "colour": "colour (red)", "kafka-option": "kafka-option",
        "schema": "schema", "dry": "dry (false)", "fast": "fast (true)",
    }  # fmt: skip
    assert {name: tuple(choices) for name, _, choices, _ in dropdowns} == {
        "source": ("", "files", "kafka"), "colour": ("", "red", "blue"),
        "dry": ("", "false", "true"), "fast": ("", "false", "true"),
    }  # fmt: skip
    assert read_widgets(Options, widgets) == Options(
        output=Path("o"), source="kafka", run_for=120_000, fast=False, kafka_option=("a=1", "b=2"), schema="games"
    )


def test_a_wrong_widget_is_reported_in_one_line_without_a_program_name() -> None:
    widgets = widgets_with(catalog="main", schema="games", heartbeat="0s")
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
