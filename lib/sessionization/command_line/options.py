"""The options of a job: one for each field of its settings, also for the fields of their sections."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a job.

    Attributes:
        name: as it is written, without the two dashes.
        path: where its value stands in a settings file, such as `("rules", "heartbeat")`.
        schema: the JSON schema of the field.
        description: for people.
        default: as a person writes it; "" for none.
        is_required: whether there is no start without it.
    """

    name: str
    path: tuple[str, ...]
    schema: Mapping[str, Any]
    description: str
    default: str
    is_required: bool = False

    @property
    def is_flag(self) -> bool:
        return self.schema.get("type") == "boolean"

    @property
    def is_repeatable(self) -> bool:
        return bool(self.schema.get("repeatable"))

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that there are to choose from."""
        return tuple(map(str, [self.schema["const"]] if "const" in self.schema else self.schema.get("enum", ())))


def sections_of(model: type[BaseModel]) -> dict[str, tuple[type[BaseModel], ...]]:
    """The sections of a job's settings by their names, each with its kinds."""
    return {
        field.alias or name: kinds
        for name, field in model.model_fields.items()
        if (kinds := tuple(_models(field.annotation)))
    }


def options_of(model: type[BaseModel]) -> list[Option]:
    """The options of a job, in the order of its settings."""
    sections, found = sections_of(model), list[Option]()
    own = {option.path[0]: option for option in _fields(model)}
    for name, field in model.model_fields.items():
        written = field.alias or name
        if written not in sections:
            found.append(own[written])
            continue
        by_path: dict[tuple[str, ...], Option] = {}
        for kind in sections[written]:
            for option in _fields(kind):
                path = (written, *option.path)
                # The field `type` chooses the kind of a section, and its option has the section's name.
                public_name = written if option.name == "type" else option.name
                one = replace(option, name=public_name, path=path, is_required=False)
                by_path[path] = _both(by_path[path], one) if path in by_path else one
        found.extend(by_path.values())
    return found


def nested(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    """Put values by the names of options (`run_for` or `run-for`) into the sections of a job's settings.

    Raises `KeyError` for a name that is no option.
    """
    paths = {option.name: option.path for option in options_of(model)}
    required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    settings: dict[str, Any] = {name: {} for name in sections_of(model) if name in required}
    for name, value in values.items():
        *sections, key = paths[name.replace("_", "-")]
        (settings.setdefault(sections[0], {}) if sections else settings)[key] = value
    return settings


def merged(model: type[BaseModel], file: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a file with those given on a command line, which win.

    A section of the file is left out where the command line chooses another kind of it.
    """
    sections, settings = sections_of(model), {**file, **given}
    for name, kinds in sections.items():
        of_file, of_command_line = file.get(name), given.get(name)
        if isinstance(of_file, Mapping) and isinstance(of_command_line, Mapping):
            both = {**of_file, **of_command_line}
            is_other = any(_fits(kind, of_file) for kind in kinds) and not any(_fits(kind, both) for kind in kinds)
            settings[name] = of_command_line if is_other else both
    return settings


def parameters_to_arguments(options: Sequence[Option], texts: Mapping[str, str]) -> list[str]:
    """Return the command line that is equivalent to the parameters of a job, or to its widgets.

    They cannot be left out, so an empty text means that the option is not given. A flag is `true` or `false`. The
    values of an option that may be repeated are in one text, separated as in a shell.

    Raises `ConfigurationError` for a flag whose text is neither true nor false, and for quotes that are not closed.
    """
    return [word for option in options for word in _arguments(option, texts.get(option.name, ""))]


def task_arguments(options: Sequence[Option], argv: Sequence[str]) -> list[str]:
    """Return the command line of a task. Its words `--NAME=TEXT` are parameters; other words are left unchanged."""
    by_name, words = {f"--{option.name}": option for option in options}, list[str]()
    for word in argv:
        name, equals, text = word.partition("=")
        words += _arguments(by_name[name], text) if equals and name in by_name else [word]
    return words


def _arguments(option: Option, text: str) -> list[str]:
    text = text.strip()
    if not text:
        return []
    if option.is_flag:
        if text not in {"true", "false"}:
            msg = f"--{option.name} {text!r} is neither true nor false: write one of the two"
            raise ConfigurationError(msg)
        return [f"--{option.name}" if text == "true" else f"--no-{option.name}"]
    try:
        return [f"--{option.name}={value}" for value in (shlex.split(text) if option.is_repeatable else [text])]
    except ValueError as error:
        msg = f"--{option.name}: {error} in its value: close the quotes"
        raise ConfigurationError(msg) from error


def locations(settings: BaseModel) -> Iterator[tuple[str, AnyPath]]:
    """The folders and URIs in the settings of a job, each with the name of its option."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            yield from locations(value)
        elif isinstance(value, AnyPath):
            yield (field.alias or name).replace("_", "-"), value


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from _models(get_args(annotation)[0])
    else:
        for part in get_args(annotation):
            yield from _models(part)


def _fields(model: type[BaseModel]) -> Iterator[Option]:
    """The fields of one class as options."""
    model_schema = model.model_json_schema()
    definitions = model_schema.get("$defs", {})

    def resolve(schema: Mapping[str, Any]) -> Mapping[str, Any]:
        if "$ref" in schema:
            return {**definitions[schema["$ref"].rsplit("/", 1)[-1]], **schema}
        # Older pydantic wraps a reference that has a default in allOf.
        choices = schema.get("anyOf", schema.get("allOf", ()))
        present = [choice for choice in choices if choice.get("type") != "null"]
        return {**resolve(present[0]), **schema} if present else schema

    # Dumped as JSON, so that help shows a default as a person writes it: 30s.
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    for name, field in model.model_fields.items():
        written = field.alias or name
        yield Option(
            written.replace("_", "-"),
            (written,),
            resolve(model_schema["properties"][written]),
            (field.description or "").strip(),
            _as_text(defaults.get(name)),
            is_required=field.is_required(),
        )


def _both(one: Option, other: Option) -> Option:
    """The option that two kinds of a section have."""
    schema = {name: value for name, value in one.schema.items() if name != "const"}
    if choices := dict.fromkeys((*one.choices, *other.choices)):
        schema["enum"] = list(choices)
    return replace(one, schema=schema)


def _fits(kind: type[BaseModel], section: Mapping[str, Any]) -> bool:
    """Whether a kind of a section has all fields of `section`, and the values that tell kinds apart."""
    options = {option.path[0]: option for option in _fields(kind)}
    return all(
        name in options and ("const" not in options[name].schema or value in options[name].choices)
        for name, value in section.items()
    )


def _as_text(default: Any) -> str:
    match default:
        case None | [] | {}:
            return ""
        case bool():
            return str(default).lower()
        case list():
            return shlex.join(map(str, default))
        case _:
            return str(default)
