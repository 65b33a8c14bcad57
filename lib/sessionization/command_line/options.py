"""The options of a job: one for each field of its settings, also for the fields of their sections."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel

from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath

_METAVARS = {
    "duration": "DURATION",
    "duration-range": "DURATION[-DURATION]",
    "path": "PATH",
    "integer": "N",
    "number": "X",
    "array": "A,B,...",
}


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a job.

    Attributes:
        name: as it is written, without the two dashes.
        path: where its value stands in a settings file, such as `("rules", "heartbeat")`.
        description: for people.
        metavar: what its value is, for people.
        default: as a person writes it; "" for none.
        choices: the values that there are to choose from.
    """

    name: str
    path: tuple[str, ...]
    description: str
    metavar: str
    default: str = ""
    choices: tuple[str, ...] = ()
    is_flag: bool = False
    is_repeatable: bool = False
    is_required: bool = False


SETTINGS = Option("settings", ("settings",), "settings file (YAML); options win over it", "FILE")


def sections_of(model: type[BaseModel]) -> dict[str, tuple[type[BaseModel], ...]]:
    """The sections of a job's settings by their names, each with its kinds."""
    return {
        field.alias or name: kinds
        for name, field in model.model_fields.items()
        if (kinds := tuple(_models(field.annotation)))
    }


def options_of(model: type[BaseModel]) -> list[Option]:
    """The options of a job, in the order of its settings; those of settings with sections begin with the file."""
    sections = sections_of(model)
    found = {SETTINGS.name: SETTINGS} if sections else {}
    for own in _fields(model):
        [section] = own.path
        if section not in sections:
            found[own.name] = own
        for option in (option for kind in sections.get(section, ()) for option in _fields(kind)):
            # The field `type` chooses the kind of a section, and its option has the section's name.
            name = section if option.name == "type" else option.name
            choices = (*(found[name].choices if name in found else ()), *option.choices)
            path = (section, *option.path)
            found[name] = replace(
                found.get(name, option), name=name, path=path, choices=tuple(dict.fromkeys(choices)), is_required=False
            )
    return list(found.values())


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
    settings = {**file, **given}
    for name, kinds in sections_of(model).items():
        if isinstance(file.get(name), Mapping) and name in given:
            both = {**file[name], **given[name]}
            is_other = any(_fits(kind, file[name]) for kind in kinds) and not any(_fits(kind, both) for kind in kinds)
            settings[name] = given[name] if is_other else both
    return settings


def task_arguments(options: Sequence[Option], argv: Sequence[str]) -> list[str]:
    """Return the command line that means the same as the parameters of a job, `--NAME=TEXT`; other words stay.

    Parameters cannot be left out, so an empty text means that the option is not given. A flag is `true` or `false`.
    The values of an option that may be repeated are in one text, separated as in a shell; raises `ConfigurationError`
    for quotes that are not closed.
    """
    by_name, words = {f"--{option.name}": option for option in options}, list[str]()
    for word in argv:
        name, equals, text = word.partition("=")
        option, text = by_name.get(name), text.strip()
        if option is None or not equals:
            words.append(word)
        elif option.is_flag and text:
            words.append({"true": name, "false": f"--no-{option.name}"}.get(text, word))
        else:
            try:
                values = shlex.split(text) if option.is_repeatable else [text] if text else []
            except ValueError as error:
                msg = f"{name}: {error} in its value: close the quotes"
                raise ConfigurationError(msg) from error
            words += [f"{name}={value}" for value in values]
    return words


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
    else:
        parts = get_args(annotation)
        for part in parts[:1] if get_origin(annotation) is Annotated else parts:
            yield from _models(part)


def _fields(model: type[BaseModel]) -> Iterator[Option]:
    """The fields of one class as options."""
    schema = model.model_json_schema()
    # Dumped as JSON, so that help shows a default as a person writes it: 30s.
    defaults = model.model_construct().model_dump(mode="json", warnings=False)
    for name, field in model.model_fields.items():
        written, default = field.alias or name, defaults.get(name)
        shape = _shape(schema["properties"][written], schema.get("$defs", {}))
        kind = shape.get("type", "")
        yield Option(
            written.replace("_", "-"),
            (written,),
            (field.description or "").strip(),
            shape.get("metavar") or _METAVARS.get(shape.get("format", kind), _METAVARS.get(kind, "TEXT")),
            "" if default in (None, [], {}) else str(default).lower() if kind == "boolean" else str(default),
            choices=tuple(map(str, [shape["const"]] if "const" in shape else shape.get("enum", ()))),
            is_flag=kind == "boolean",
            is_repeatable=bool(shape.get("repeatable")),
            is_required=field.is_required(),
        )


def _shape(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a field takes, with references resolved, and without null."""
    if "$ref" in schema:
        return {**definitions[schema["$ref"].rsplit("/", 1)[-1]], **schema}
    present = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    return {**_shape(present[0], definitions), **schema} if present else schema


def _fits(kind: type[BaseModel], section: Mapping[str, Any]) -> bool:
    """Whether a kind of a section has all fields of `section`, and the values that tell kinds apart."""
    choices = {field.alias or name: get_args(field.annotation) for name, field in kind.model_fields.items()}
    is_known = section.keys() <= choices.keys()
    return is_known and all(section[name] in choices[name] for name in section.keys() & {"type", "mode"})
