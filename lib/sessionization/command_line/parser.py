"""The command line of every job, built from its settings model.

The options, their help and their checks come from the fields of the model, so that a setting is declared once.
pydantic-settings is not used: it also reads environment variables, treats the text `None` as no value and answers a
wrong value with many lines. With click this module decides all of that.
"""

import contextlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import click
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sessionization.command_line.dead_mounts import refuse_dead_mounts
from sessionization.command_line.job_parameters import task_arguments
from sessionization.command_line.other_pyspark import refuse_other_pyspark
from sessionization.databricks import on_databricks
from sessionization.durations import format_duration
from sessionization.errors import ConfigurationError, SessionizationError
from sessionization.files import describe_dead_mount, is_dead_mount
from sessionization.hadoop_errors import Uri
from sessionization.say import Say

M = TypeVar("M", bound=BaseModel)
_Schema = Mapping[str, Any]

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

    A field `max_event_age` is the option `--max-event-age`. A field with an alias takes its option's name from the
    alias. A `bool` is a flag (`--no-…` where it is true by default). Options are written in full and given once.
    Environment variables are ignored. `--help` shows a field's description and default. A field's `json_schema_extra`
    may set a `metavar`, and with `repeatable` it allows the option several times.

    On Databricks `task_arguments` reads the words of a task first.

    Exits with code 0 after `--help`. Exits with code 2 and one line on stderr when `argv` is wrong.
    """
    try:
        if argv is None:
            argv = task_arguments(model, sys.argv[1:]) if on_databricks() else sys.argv[1:]
        return read_settings(model, argv, prog)
    except click.exceptions.Exit as request:
        raise SystemExit(request.exit_code) from None
    except ConfigurationError as error:
        _fail(prog, str(error))


def read_settings(model: type[M], argv: Sequence[str], prog: str = "") -> M:
    """Read `argv` into `model` as `parse_settings` does, for a caller without a command line.

    Raises `ConfigurationError` with the problem, and click's `Exit` after `--help`. Advice names `prog` if it is given.
    """
    schemas = _schemas(model)
    command = click.Command(prog, params=_options(model, schemas), help=model.__doc__, context_settings=_CONTEXT)
    help_hint = f" ({prog} --help lists the options)" if prog else ""
    try:
        context = command.make_context(prog, list(argv))
        if context.args:  # not repeated: they may be the rest of a secret
            words = "1 word belongs" if len(context.args) == 1 else f"{len(context.args)} words belong"
            msg = f"{words} to no option: quote a value that holds spaces{help_hint}"
            raise ConfigurationError(msg)
        given = context.params
        settings = model.model_validate({field: text for field, text in given.items() if text is not None})
    except click.NoSuchOption as error:
        suggestion = f"; did you mean {' or '.join(sorted(error.possibilities))}?" if error.possibilities else ""
        msg = f"{error.option_name} is not an option{suggestion}{help_hint}"
        raise ConfigurationError(msg) from None
    except click.ClickException as error:
        msg = f"{error.format_message().rstrip('.')}{help_hint}"
        raise ConfigurationError(msg) from None
    except ValidationError as error:
        raise ConfigurationError(_explain(_first_error(error), schemas, prog)) from None
    refuse_dead_mounts(settings)
    return settings


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


def _schemas(model: type[BaseModel]) -> dict[str, _Schema]:
    """Return the JSON schema of each field by its public name."""
    model_schema = model.model_json_schema()
    definitions = model_schema.get("$defs", {})

    def resolve(schema: _Schema) -> _Schema:
        if "$ref" in schema:
            return {**definitions[schema["$ref"].rsplit("/", 1)[-1]], **schema}
        # Older pydantic wraps a reference that has a default in allOf.
        choices = schema.get("anyOf", schema.get("allOf", ()))
        present = [choice for choice in choices if choice.get("type") != "null"]
        return {**resolve(present[0]), **schema} if present else schema

    return {name: resolve(schema) for name, schema in model_schema.get("properties", {}).items()}


def _options(model: type[BaseModel], schemas: Mapping[str, _Schema]) -> list[click.Parameter]:
    # Dumped as JSON, so that help shows a default as a person writes it: 30s.
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    options: list[click.Parameter] = []
    for name, field in model.model_fields.items():
        public_name = field.alias or name
        schema = schemas[public_name]
        is_flag = field.annotation is bool
        option_text = ("--no-" if field.default is True else "--") + public_name.replace("_", "-")
        description = (field.description or "").strip()
        if field.is_required():
            description += "  [required]"
        elif not is_flag and defaults[name] not in (None, []):
            description += f"  [default: {defaults[name]}]"
        options.append(
            click.Option(
                [option_text, public_name],
                help=description,
                metavar=None if is_flag else _metavar(schema),
                # Both forms collect every occurrence, so that a repeated option is detected.
                multiple=not is_flag,
                count=is_flag,
                callback=_flag_callback(value=field.default is not True) if is_flag else _callback(schema),
            )
        )
    return options


def _metavar(schema: _Schema) -> str:
    if "metavar" in schema:
        return str(schema["metavar"])
    choices = [schema["const"]] if "const" in schema else schema.get("enum", ())
    if choices:
        return "|".join(map(str, choices))
    return _METAVARS.get(schema.get("format", ""), _METAVARS.get(schema.get("type", ""), "TEXT"))


def _callback(schema: _Schema) -> Callable[[click.Context, click.Option, tuple[str, ...]], object]:
    return _check_each if schema.get("repeatable") else _check_single


def _check_each(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return all values of an option that may be repeated."""
    return tuple(str(_check_single(context, option, (text,))) for text in texts) or None


def _check_single(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> str | None:
    """Refuse an empty option, and a repeated one, because one of its values would be lost silently.

    An unset shell variable gives an empty option. As a folder it would mean the current folder.
    """
    if len(texts) > 1:
        message = f"{option.opts[0]} is given more than once ({', '.join(map(repr, texts))}): give it once"
        raise click.UsageError(message, context)
    if texts == ("",):
        message = f"{option.opts[0]} '' is empty: give it a value, or leave it out"
        raise click.UsageError(message, context)
    return texts[0] if texts else None


def _flag_callback(*, value: bool) -> Callable[[click.Context, click.Parameter, int], bool | None]:
    def read_settings(context: click.Context, option: click.Parameter, count: int) -> bool | None:
        if count > 1:
            message = f"{option.opts[0]} is given more than once: give it once"
            raise click.UsageError(message, context)
        return value if count else None

    return read_settings


def _first_error(error: ValidationError) -> ErrorDetails:
    """Return the error to report first: a wrong value that was given comes before a missing one."""
    return min(error.errors(), key=lambda details: details["type"] == "missing")


def _explain(error: ErrorDetails, schemas: Mapping[str, _Schema], prog: str) -> str:
    """Describe the problem, the value and the correction; a validator's own message begins with the value."""
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    public_name = str(error["loc"][0])
    option, value = f"--{public_name.replace('_', '-')}", repr(error["input"])
    schema = schemas.get(public_name, {})
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return f"{option} is missing: give it, as in {option} {_metavar(schema)}"
    if kind == "value_error":
        return f"{option} {message}"
    if kind in _BOUNDS:
        key, verdict, relation = _BOUNDS[kind]
        bound = context[key]
        if schema.get("format") == "duration":
            bound = format_duration(int(bound))
            value = value if isinstance(error["input"], str) else repr(format_duration(int(error["input"])))
        return f"{option} {value} is {verdict}: write {relation} {bound}"
    if kind in {"literal_error", "enum"}:
        return f"{option} {value} is not known: write {context['expected']}"
    help_hint = f"; {prog} --help explains it" if prog else ""
    default_advice = f"does not fit: {message[:1].lower()}{message[1:]}{help_hint}"
    return f"{option} {value} {_ADVICE.get(kind, default_advice)}"
