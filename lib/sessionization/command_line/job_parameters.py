"""The options of a job as Databricks passes them: always all of them, as text.

A command line leaves out an option that is not wanted. A job's parameters cannot be left out. An empty text, or the
option's own default, therefore means that the option is not given. A flag is `true` or `false`. The values of an
option that may be repeated are in one text, separated as in a shell.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sessionization.errors import ConfigurationError


def parameter_defaults(model: type[BaseModel]) -> dict[str, str]:
    """Return the options of a job with their defaults, named as on its command line but without the two dashes.

    >>> from sessionization.settings.sessionize_settings import SessionizeSettings
    >>> parameter_defaults(SessionizeSettings)["session-timeout"], parameter_defaults(SessionizeSettings)["run-for"]
    ('12h', '')
    """
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    return {option_name(name, field): _as_text(defaults.get(name)) for name, field in model.model_fields.items()}


def parameters_to_arguments(model: type[BaseModel], texts: Mapping[str, str]) -> list[str]:
    """Return the command line that is equivalent to the parameters.

    Args:
        model: the settings of a job.
        texts: the text of each parameter by the parameter's name.

    Raises `ConfigurationError` for a flag whose text is neither true nor false, and for quotes that are not closed.
    """
    defaults, words = parameter_defaults(model), []
    for name, field in model.model_fields.items():
        option = option_name(name, field)
        text = texts.get(option, "").strip()
        if text in {"", defaults[option]}:
            continue
        if field.annotation is bool:
            if text not in {"true", "false"}:
                msg = f"--{option} {text!r} is neither true nor false: write one of the two"
                raise ConfigurationError(msg)
            words.append(f"--{option}" if text == "true" else f"--no-{option}")
        elif _is_repeatable(field):
            words.extend(f"--{option}={value}" for value in _split_values(option, text))
        else:
            words.append(f"--{option}={text}")
    return words


def task_arguments(model: type[BaseModel], argv: Sequence[str]) -> list[str]:
    """Return the command line of a task. Its words `--NAME=TEXT` are parameters; other words are left unchanged."""
    names = parameter_defaults(model)
    texts: dict[str, str] = {}
    other_words = []
    for word in argv:
        option, equals, text = word.removeprefix("--").partition("=")
        if word.startswith("--") and equals and option in names and option not in texts:
            texts[option] = text
        else:
            other_words.append(word)
    return parameters_to_arguments(model, texts) + other_words


def option_name(name: str, field: FieldInfo) -> str:
    return (field.alias or name).replace("_", "-")


def _as_text(default: Any) -> str:
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


def _split_values(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        msg = f"--{option}: {error} in its value: close the quotes"
        raise ConfigurationError(msg) from error
