"""The command line that all jobs share: help, values, and one-line errors."""

import errno
import logging
from pathlib import Path

import pytest

from sessionization.command_line import parser
from sessionization.errors import ConfigurationError
from tests.command_line.example import Colour, Options
from tests.support import command_line


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
