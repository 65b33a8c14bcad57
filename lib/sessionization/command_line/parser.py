"""The command line of every job, built from its settings model.

The options, their help and their checks come from the fields of the model, so that a setting is declared once.
pydantic-settings is not used: it also reads environment variables, treats the text `None` as no value, answers a
wrong value with many lines, and is not in Databricks Runtime. With click this module decides all of that.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import TypeVar

import click
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sessionization.command_line.options import (
    SETTINGS,
    Option,
    merged,
    nested,
    options_of,
    sections_of,
    task_arguments,
)
from sessionization.command_line.settings_file import read_settings_file
from sessionization.databricks import on_databricks
from sessionization.durations import format_duration
from sessionization.errors import ConfigurationError, SessionizationError, SetupError
from sessionization.say import Say

M = TypeVar("M", bound=BaseModel)

_SPARK = {"pyspark", "py4j"}
"""What is imported first of a Spark that is not there."""
_CONTEXT = {"max_content_width": 100, "allow_extra_args": True}


def read_settings(model: type[M], argv: Sequence[str], prog: str = "") -> M:
    """Read `argv` into `model`, one option per field.

    A field `max_event_age_ms` of the section `rules` is the option `--max-event-age`, or in full
    `--rules.max-event-age`. A `bool` is a flag. Of an option that is given twice the last one counts, unless the
    field's `json_schema_extra` has `repeatable`; there may be a `metavar` too. `--help` shows a field's description and
    default. Environment variables are ignored.

    A model with sections also has `--settings FILE`. Options win over the file, and choose other kinds of its sections:
    `--warehouse DIR` replaces tables in a catalog.

    Raises `ConfigurationError` with the problem, and click's `Exit` after `--help`. Advice names `prog` if it is given.
    """
    options = options_of(model)
    command = click.Command(
        prog, params=[_click_option(option) for option in options], help=model.__doc__, context_settings=_CONTEXT
    )
    help_hint = f" ({prog} --help lists the options)" if prog else ""
    try:
        context = command.make_context(prog, list(argv))
    except click.ClickException as error:
        msg = f"{error.format_message().rstrip('.')}{help_hint}"
        raise ConfigurationError(msg) from None
    if context.args:  # not repeated: they may be the rest of a secret
        msg = f"words that belong to no option: quote a value that holds spaces{help_hint}"
        raise ConfigurationError(msg)
    given = {name: text for name, text in context.params.items() if text not in {None, ()}}
    for name, text in given.items():
        if text == "":  # an unset shell variable; as a folder it would mean the current folder
            msg = f"--{name.replace('_', '-')} '' is empty: give it a value, or leave it out"
            raise ConfigurationError(msg)
    file = given.pop(SETTINGS.name, None)
    sections = {} if file is None else read_settings_file(Path(file), model)
    try:
        return model.model_validate(merged(model, sections, nested(model, given)))
    except ValidationError as error:
        # A wrong value that was given comes before a missing one.
        first = min(error.errors(), key=lambda details: details["type"] == "missing")
        place = f"--settings {file}: " if file else ""
        raise ConfigurationError(_explain(first, sections_of(model), options, given, place)) from None


def run(main: Callable[[], int], prog: str) -> None:
    """Exit with the result of `main`. An error that a person can correct becomes one line on stderr and its exit code.

    Warnings of the log go to stderr too, with the job's name, unless the process has a log of its own.

    After success on Databricks it returns instead, because Databricks may treat any exit of a task as a failure.
    """
    logging.basicConfig(format=f"{prog}: %(message)s")
    try:
        code = main()
    except click.exceptions.Exit as request:  # after --help
        code = request.exit_code
    except SessionizationError as error:
        _print_error(prog, str(error))
        code = error.exit_code
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in _SPARK:
            raise
        _print_error(prog, "Spark is not installed here: install this package with its extra local (docs/upgrade.md)")
        code = SetupError.exit_code
    except OSError as error:
        if error.filename is None:
            raise
        _print_error(prog, f"{error.filename} cannot be used ({error.strerror}): see to it, and start again")
        code = 1
    except KeyboardInterrupt:
        code = 0
    if code or not on_databricks():
        sys.exit(code)


def run_job(main: Callable[[M, Say], int | None], model: type[M], prog: str) -> None:
    """Run a script of `jobs/` as `run` does: `main` gets the settings and a function that prints a line on stderr.

    `main` imports the job late, because Spark takes seconds to import and `--help` should not. It returns an exit code
    other than 0, if there is one. On Databricks `task_arguments` reads the words of a task first.
    """

    def start() -> int:
        words = task_arguments(options_of(model), sys.argv[1:]) if on_databricks() else sys.argv[1:]
        return main(read_settings(model, words, prog), say_on_stderr(prog)) or 0

    run(start, prog)


def say_on_stdout(line: str) -> None:
    """Write a line of a job's result to stdout at once."""
    click.echo(line)


def say_on_stderr(prog: str) -> Say:
    """Return the function that writes a job's messages to stderr, one line each, with the job's name.

    If stderr is closed, the message is lost and the job continues.
    """

    def say(line: str) -> None:
        with contextlib.suppress(OSError):
            click.echo(f"{prog}: {line}", err=True)

    return say


def _print_error(prog: str, message: str) -> None:
    click.echo(f"{prog}: {' '.join(message.split())}", err=True)


def _click_option(option: Option) -> click.Parameter:
    names = dict.fromkeys((option.name, ".".join(option.path).replace("_", "-")))
    description = option.description
    if option.is_required:
        description += "  [required]"
    elif not option.is_flag and option.default:
        description += f"  [default: {option.default}]"
    return click.Option(
        [
            *(f"--{name}/--no-{name}" if option.is_flag else f"--{name}" for name in names),
            option.name.replace("-", "_"),
        ],
        help=description,
        metavar=None if option.is_flag else _value_of(option),
        multiple=option.is_repeatable,
        is_flag=option.is_flag,
        default=None,
    )


def _value_of(option: Option) -> str:
    return "|".join(option.choices) or option.metavar


def _explain(
    error: ErrorDetails, sections: Container[str], options: Sequence[Option], given: Container[str], file: str
) -> str:
    """Describe a problem in one line: the place, the value and the correction.

    Args:
        error: the problem.
        sections: the names of the sections.
        options: all options of the job.
        given: the names of those that were given on the command line; the others are from the file.
        file: "--settings FILE: " where there is one, or "".
    """
    kind, message = error["type"], error["msg"].removeprefix("Value error, ")
    # The location of an error in a section also has the section's kind.
    first, *others = map(str, error["loc"] or ("",))
    path: tuple[str, ...] = (first, others[-1]) if first in sections and others else (first,)
    if kind == "union_tag_invalid":  # the text that chooses the kind of a section
        path = next(option.path for option in options if option.path[0] == first and option.choices)
    option = next((option for option in options if option.path == path), None)
    if option is None:
        beside = ", ".join(option.path[-1] for option in options if option.path[:-1] == path[:-1])
        text = f"{'.'.join(path)} is not known: there are {beside}" if kind == "extra_forbidden" else message
        return f"{file}{text}"
    if kind == "missing":
        where = f", or as {'.'.join(path)} in the settings file" if sections else ""
        return f"--{option.name} is missing: give it, as in --{option.name} {_value_of(option)}{where}"
    is_given = not file or option.name.replace("-", "_") in given
    place = f"--{option.name}" if is_given else f"{file}{'.'.join(path)}"
    if kind == "extra_forbidden":
        return f"{place} is not for {first} of the kind {others[0]}: leave it out"
    return f"{place} {message if kind == 'value_error' else _correction(error, option)}"


def _correction(error: ErrorDetails, option: Option) -> str:
    kind, context, value = error["type"], error.get("ctx", {}), repr(error["input"])
    if kind == "union_tag_invalid":
        return f"{context['tag']!r} is not known: write {' or '.join(map(repr, option.choices))}"
    if kind in {"literal_error", "enum"}:
        return f"{value} is not known: write {context['expected']}"
    if kind == "greater_than_equal":
        least = format_duration(int(context["ge"])) if option.metavar == "DURATION" else context["ge"]
        return f"{value} is too small: write at least {least}"
    return f"{value} does not fit: {error['msg'][:1].lower()}{error['msg'][1:]}"
