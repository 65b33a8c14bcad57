"""The command line of every job, built from its settings model.

The options, their help and their checks come from the fields of the model, so that a setting is declared once.
pydantic-settings is not used: it also reads environment variables, treats the text `None` as no value, answers a
wrong value with many lines, and is not in Databricks Runtime. With click this module decides all of that.
"""

import contextlib
import difflib
import logging
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sessionization.command_line.dead_mounts import refuse_dead_mounts
from sessionization.command_line.options import Option, merged, nested, options_of, sections_of, task_arguments
from sessionization.command_line.other_pyspark import refuse_other_pyspark
from sessionization.command_line.settings_file import read_settings_file
from sessionization.databricks import on_databricks
from sessionization.durations import format_duration
from sessionization.errors import ConfigurationError, SessionizationError
from sessionization.files import describe_dead_mount, is_dead_mount
from sessionization.hadoop_errors import Uri
from sessionization.say import Say

M = TypeVar("M", bound=BaseModel)

SETTINGS = Option("settings", ("settings",), {"metavar": "FILE"}, "settings file (YAML); options win over it", "")
_CONTEXT = {"max_content_width": 100, "allow_extra_args": True}
_METAVARS = {
    "duration": "DURATION",
    "duration-range": "DURATION[-DURATION]",
    "path": "PATH",
    "integer": "N",
    "number": "X",
    "array": "A,B,...",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "too small", "at least"),
    "greater_than": ("gt", "too small", "more than"),
    "less_than_equal": ("le", "too large", "at most"),
    "less_than": ("lt", "too large", "less than"),
}
_ADVICE = {
    "int_parsing": "is not a whole number: write digits, such as 5",
    "int_from_float": "is not a whole number: write digits, such as 5",
    "int_parsing_size": "is too large a number: write fewer digits",
    "float_parsing": "is not a number: write digits, such as 0.5",
    "finite_number": "is not a number: write digits, such as 0.5",
}


def parse_settings(model: type[M], argv: Sequence[str] | None, prog: str) -> M:
    """Read `argv` (by default the process's own arguments) into `model`, one option per field.

    A field `max_event_age_ms` of the section `rules` is the option `--max-event-age`, or in full
    `--rules.max-event-age`. A `bool` is a flag. Options are written in full and given once. Environment variables are
    ignored. `--help` shows a field's description and default. A field's `json_schema_extra` may set a `metavar`, and
    with `repeatable` it allows the option several times.

    A model with sections also has `--settings FILE`. Options win over the file, and choose other kinds of its sections:
    `--warehouse DIR` replaces tables in a catalog.

    On Databricks `task_arguments` reads the words of a task first.

    Exits with code 0 after `--help`. Exits with code 2 and one line on stderr when `argv` is wrong.
    """
    try:
        if argv is None:
            argv = task_arguments(all_options(model), sys.argv[1:]) if on_databricks() else sys.argv[1:]
        return read_settings(model, argv, prog)
    except click.exceptions.Exit as request:
        raise SystemExit(request.exit_code) from None
    except ConfigurationError as error:
        _fail(prog, str(error))


def all_options(model: type[BaseModel]) -> list[Option]:
    """The options of a job; those of settings with sections begin with the settings file."""
    return [*([SETTINGS] if sections_of(model) else []), *options_of(model)]


def read_settings(model: type[M], argv: Sequence[str], prog: str = "") -> M:
    """Read `argv` into `model` as `parse_settings` does, for a caller without a command line.

    Raises `ConfigurationError` with the problem, and click's `Exit` after `--help`. Advice names `prog` if it is given.
    """
    options = all_options(model)
    command = click.Command(
        prog, params=[_click_option(option) for option in options], help=model.__doc__, context_settings=_CONTEXT
    )
    help_hint = f" ({prog} --help lists the options)" if prog else ""
    try:
        context = command.make_context(prog, list(argv))
        if context.args:  # not repeated: they may be the rest of a secret
            words = "1 word belongs" if len(context.args) == 1 else f"{len(context.args)} words belong"
            msg = f"{words} to no option: quote a value that holds spaces{help_hint}"
            raise ConfigurationError(msg)
        given = {name: text for name, text in context.params.items() if text is not None}
    except click.NoSuchOption as error:
        suggestion = f"; did you mean {' or '.join(sorted(error.possibilities))}?" if error.possibilities else ""
        msg = f"{error.option_name} is not an option{suggestion}{help_hint}"
        raise ConfigurationError(msg) from None
    except click.ClickException as error:
        msg = f"{error.format_message().rstrip('.')}{help_hint}"
        raise ConfigurationError(msg) from None
    file = given.pop(SETTINGS.name, None)
    sections = _sections_of_job(model, Path(file)) if file is not None else {}
    try:
        settings = model.model_validate(merged(model, sections, nested(model, given)))
    except ValidationError as error:
        explain = _Explainer(model, options, given, f"--settings {file}: " if file else "", prog)
        raise ConfigurationError(explain(_first_error(error))) from None
    refuse_dead_mounts(settings)
    return settings


def _sections_of_job(model: type[BaseModel], file: Path) -> dict[str, Any]:
    """What a settings file says to a job: the sections of its settings, and the one with its own options."""
    content, known = read_settings_file(file), {field.alias or name for name, field in model.model_fields.items()}
    section = str(getattr(model, "own_section", ""))
    own: dict[str, Any] = content.get(section, {})
    if unknown := own.keys() - known:
        msg = f"--settings {file}: {section}.{min(unknown)} is not known: jobs/{section}.py --help lists what there is"
        raise ConfigurationError(msg)
    # The run_for of a file is the stream's; another job has its own in its section.
    taken = sections_of(model) if section else known
    return {name: value for name, value in content.items() if name in taken} | own


def run(main: Callable[[], int], prog: str) -> None:
    """Exit with the result of `main`. An error that a person can correct becomes one line on stderr and its exit code.

    Warnings of the log go to stderr too, with the job's name, unless the process has a log of its own.

    After success on Databricks it returns instead, because Databricks may treat any exit of a task as a failure.
    """
    logging.basicConfig(format=f"{prog}: %(message)s")
    try:
        refuse_other_pyspark()
        code = main()
    except SessionizationError as error:
        _print_error(prog, str(error))
        code = error.exit_code
    except OSError as error:
        place = str(error.filename or "a file")
        if is_dead_mount(error):
            cause = describe_dead_mount(place, error)
        elif isinstance(error.filename, Uri):
            cause = f"{place} cannot be used ({error.strerror}): see to the credentials and to this user's rights"
        else:
            raise
        _print_error(prog, f"{cause}, then start the job again: nothing is lost")
        code = 1
    except KeyboardInterrupt:
        code = 0
    if code or not on_databricks():
        sys.exit(code)


def say_on_stdout(line: str) -> None:
    """Write a line of a job's result to stdout at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_on_stderr(prog: str) -> Say:
    """Return the function that writes a job's messages to stderr, one line each, with the job's name.

    If stderr is closed, the message is lost and the job continues.
    """

    def say(line: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{prog}: {line}\n")
            sys.stderr.flush()

    return say


def _fail(prog: str, message: str) -> NoReturn:
    _print_error(prog, message)
    sys.exit(2)


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
        metavar=None if option.is_flag else _metavar(option),
        # Every occurrence is collected, so that a repeated option is detected.
        multiple=True,
        is_flag=option.is_flag,
        default=None,
        callback=_check_each if option.is_repeatable else _check_single,
    )


def _metavar(option: Option) -> str:
    schema = option.schema
    if "metavar" in schema:
        return str(schema["metavar"])
    if option.choices:
        return "|".join(option.choices)
    return _METAVARS.get(schema.get("format", ""), _METAVARS.get(schema.get("type", ""), "TEXT"))


def _check_each(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[str] | None:
    """Return all values of an option that may be repeated."""
    return [str(_check_single(context, option, (text,))) for text in texts] or None


def _check_single(context: click.Context, option: click.Parameter, texts: tuple[str | bool, ...]) -> str | bool | None:
    """Refuse an empty option, and a repeated one, because one of its values would be lost silently.

    An unset shell variable gives an empty option. As a folder it would mean the current folder.
    """
    if len(texts) > 1:
        values = "" if isinstance(texts[0], bool) else f" ({', '.join(map(repr, texts))})"
        message = f"{option.opts[0]} is given more than once{values}: give it once"
        raise click.UsageError(message, context)
    if texts == ("",):
        message = f"{option.opts[0]} '' is empty: give it a value, or leave it out"
        raise click.UsageError(message, context)
    return texts[0] if texts else None


def _first_error(error: ValidationError) -> ErrorDetails:
    """Return the error to report first: a wrong value that was given comes before a missing one."""
    return min(error.errors(), key=lambda details: details["type"] == "missing")


@dataclass(frozen=True, slots=True)
class _Explainer:
    """Describes a problem in one line: the place, the value and the correction.

    Attributes:
        model: the settings.
        options: all options of the job.
        given: the names of those that were given on the command line; the others are from the file.
        file: "--settings FILE: " where there is one, or "".
        prog: the job, for advice.
    """

    model: type[BaseModel]
    options: Sequence[Option]
    given: Container[str]
    file: str
    prog: str

    def __call__(self, error: ErrorDetails) -> str:
        kind, path = error["type"], self._path(error)
        message = error["msg"].removeprefix("Value error, ")
        option = next((option for option in self.options if option.path == path), None)
        if kind == "union_tag_invalid":  # the text that chooses the kind of a section
            option = next(option for option in self.options if option.path[0] == path[0] and option.choices)
            tag, expected = error["ctx"]["tag"], " or ".join(map(repr, option.choices))
            return f"{self._place(option)} {tag!r} is not known: write {expected}"
        if option is None:
            if kind == "extra_forbidden":
                return f"{self.file}{'.'.join(path)} is not known: {self._known_beside(path)}"
            return f"{self.file}{message}" if self.file and not message.startswith("--") else message
        if kind == "missing":
            where = f", or as {'.'.join(option.path)} in the settings file" if sections_of(self.model) else ""
            return f"--{option.name} is missing: give it, as in --{option.name} {_metavar(option)}{where}"
        if kind == "extra_forbidden":  # another kind of the section has it
            chosen, *_ = (kind for kind in sections_of(self.model)[path[0]] if str(error["loc"][1]) in _tags(kind))
            other = option.kinds[0]
            return f"{self._place(option)} is not for {chosen.chosen_by}: leave it out, or give {other.chosen_by}"  # type: ignore[attr-defined]
        return f"{self._place(option)} {self._advice(error, option, message)}"

    def _path(self, error: ErrorDetails) -> tuple[str, ...]:
        """The path of the option in question; the location of an error also has the kind of a section."""
        first, *others = map(str, error["loc"] or ("",))
        if first not in sections_of(self.model) or not others:
            return (first,)
        known = {option.path for option in self.options}
        return next(((first, name) for name in others if (first, name) in known), (first, others[-1]))

    def _place(self, option: Option) -> str:
        is_given = not self.file or option.name.replace("-", "_") in self.given
        return f"--{option.name}" if is_given else f"{self.file}{'.'.join(option.path)}"

    def _known_beside(self, path: tuple[str, ...]) -> str:
        beside = [option.path[-1] for option in self.options if option.path[:-1] == path[:-1]]
        close = difflib.get_close_matches(path[-1], beside, 1)
        return f"did you mean {close[0]}?" if close else f"there are {', '.join(beside)}"

    def _advice(self, error: ErrorDetails, option: Option, message: str) -> str:
        kind, context, value = error["type"], error.get("ctx", {}), repr(error["input"])
        if kind == "value_error":
            return message
        if kind in _BOUNDS:
            key, verdict, relation = _BOUNDS[kind]
            bound = context[key]
            if option.schema.get("format") == "duration":
                bound = format_duration(int(bound))
                value = value if isinstance(error["input"], str) else repr(format_duration(int(error["input"])))
            return f"{value} is {verdict}: write {relation} {bound}"
        if kind in {"literal_error", "enum"}:
            return f"{value} is not known: write {context['expected']}"
        help_hint = f"; {self.prog} --help explains it" if self.prog else ""
        default_advice = f"does not fit: {message[:1].lower()}{message[1:]}{help_hint}"
        return f"{value} {_ADVICE.get(kind, default_advice)}"


def _tags(kind: type[BaseModel]) -> set[str]:
    """What a location in an error calls a kind of a section."""
    return {kind.__name__, str(getattr(kind, "chosen_by", "")).split(" ")[-1]}
