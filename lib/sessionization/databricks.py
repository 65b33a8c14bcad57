"""The options of a job as Databricks gives them: always all of them, as text, in widgets or as words of a task.

On a command line an option that is not wanted is left out. A job's parameters cannot be left out, so here an empty text
stands for an option that is not given, and so does the option's own default, a flag is `true` or `false`, and the values
of an option that may be repeated stand in one text, separated as in a shell.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sessionization.errors import ConfigurationError

M = TypeVar("M", bound=BaseModel)

JOB_RUN_ID: Final = "job-run-id"
"""The widget that only a job fills, with `{{job.run_id}}`: so a notebook knows whether a person looks on."""
ENTRY_POINTS: Final = ("notebook", "file")
ENTRY_POINT_VARIABLE: Final = "SESSIONIZATION_ENTRY_POINT"
"""Environment variable by which a job's cluster names the one of its tasks that runs the stream."""


class WidgetBar(Protocol):
    """What is used of `dbutils.widgets`, a workspace's or a laptop's."""

    def text(self, name: str, defaultValue: str, label: str) -> None: ...  # noqa: N803 - as Databricks calls it

    def dropdown(self, name: str, defaultValue: str, choices: Sequence[str], label: str) -> None: ...  # noqa: N803

    def get(self, name: str) -> str: ...


def on_databricks() -> bool:
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def is_chosen(entry_point: Literal["notebook", "file"]) -> bool:
    """Whether the stream is this entry point's to run.

    A job starts both, and its cluster names one: so exactly one goes on. Where none is named, whoever was started is.

    Raises `ConfigurationError` where something else is named.
    """
    chosen = os.environ.get(ENTRY_POINT_VARIABLE, entry_point)
    if chosen not in ENTRY_POINTS:
        msg = (
            f"{ENTRY_POINT_VARIABLE} {chosen!r} is no entry point: deploy with entry_point {' or '.join(ENTRY_POINTS)}"
        )
        raise ConfigurationError(msg)
    return chosen == entry_point


def parameters(model: type[BaseModel]) -> dict[str, str]:
    """The options of a job with their defaults, as its command line has them but without the two dashes.

    >>> from sessionization.settings import SessionizeSettings
    >>> parameters(SessionizeSettings)["session-timeout"], parameters(SessionizeSettings)["run-for"]
    ('12h', '')
    """
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    return {_option(name, field): _text(defaults.get(name)) for name, field in model.model_fields.items()}


def options(model: type[BaseModel], texts: Mapping[str, str]) -> list[str]:
    """The command line that says what the parameters say.

    Args:
        model: the settings of a job.
        texts: each parameter's text by its name.

    Raises `ConfigurationError` for the text of a flag that is neither true nor false, and for quotes without an end.
    """
    defaults, words = parameters(model), []
    for name, field in model.model_fields.items():
        option = _option(name, field)
        text = texts.get(option, "").strip()
        if text in {"", defaults[option]}:
            continue
        if field.annotation is bool:
            if text not in {"true", "false"}:
                msg = f"--{option} {text!r} is neither true nor false: write one of the two"
                raise ConfigurationError(msg)
            words.append(f"--{option}" if text == "true" else f"--no-{option}")
        elif _is_repeatable(field):
            words.extend(f"--{option}={value}" for value in _values(option, text))
        else:
            words.append(f"--{option}={text}")
    return words


def task_options(model: type[BaseModel], argv: Sequence[str]) -> list[str]:
    """The command line of a task whose words `--NAME=TEXT` are parameters; other words stay as they are."""
    names = parameters(model)
    texts: dict[str, str] = {}
    others = []
    for word in argv:
        option, equals, text = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals and option in names and option not in texts:
            texts[option] = text
        else:
            others.append(word)
    return options(model, texts) + others


def make_widgets(model: type[BaseModel], widgets: WidgetBar) -> None:
    """Make a widget for every option of a job, of the option's name, with its default."""
    for (option, default), field in zip(parameters(model).items(), model.model_fields.values(), strict=True):
        choices = _choices(field)
        if choices:
            widgets.dropdown(option, default, choices, option)
        else:
            widgets.text(option, default, option)


def make_job_run_id_widget(widgets: WidgetBar) -> None:
    """Make the widget that tells a job from a person; whoever opens the notebook leaves it empty."""
    widgets.text(JOB_RUN_ID, "", f"{JOB_RUN_ID} (filled by the job)")


def is_run_by_a_job(widgets: WidgetBar) -> bool:
    return bool(widgets.get(JOB_RUN_ID).strip())


def read_widgets(model: type[M], widgets: WidgetBar) -> M:
    """Read the settings of a job from its widgets.

    Raises `ConfigurationError` with the line that the job's command line would have printed.
    """
    from sessionization.cli import read

    try:
        return read(model, options(model, {option: widgets.get(option) for option in parameters(model)}))
    except ConfigurationError as error:
        msg = f"in the widgets, each named as its option: {error}"
        raise ConfigurationError(msg) from None


def _option(name: str, field: FieldInfo) -> str:
    return (field.alias or name).replace("_", "-")


def _text(default: Any) -> str:
    match default:
        case None | []:
            return ""
        case bool():
            return str(default).lower()
        case list():
            return shlex.join(map(str, default))
        case _:
            return str(default)


def _is_repeatable(field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and bool(extra.get("repeatable"))


def _values(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        msg = f"--{option}: {error} in its value: close the quotes"
        raise ConfigurationError(msg) from error


def _choices(field: FieldInfo) -> list[str]:
    if field.annotation is bool:
        return ["false", "true"]
    return [str(choice) for choice in get_args(field.annotation)] if get_origin(field.annotation) is Literal else []
