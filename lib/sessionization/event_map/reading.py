"""Reads event maps: those of the package, and the file of `--events`. A mistake is one line with its place."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sessionization.errors import ConfigurationError
from sessionization.event_map.model import EventMap
from sessionization.event_map.parts import CONSTANT, FROM_A_FIELD, PAGE
from sessionization.yaml_file import read_yaml_file

DEFAULT: Final = "default"
PLAYSTATION: Final = "playstation"
"""The map of the demo, of the notebooks and of the sample evening: `default`, and the games that are played."""
_MAPS, _ENDING = files("sessionization.event_map") / "maps", ".yml"
_NOT_IN_A_FILE = {CONSTANT, FROM_A_FIELD, "[key]"}
"""What pydantic's location of an error has beyond the place in a file."""


@cache
def package_map(name: str) -> EventMap:
    """A map of the package, by its name."""
    return _checked(read_yaml_file(_MAPS / f"{name}{_ENDING}", name, PAGE), name)


def stored_map(content: Any) -> EventMap | None:
    """The map that `EventMap.stored` wrote; None for None.

    A checkpoint of the first release has none, and means `default`. Raises `ValueError` where it cannot be read.
    """
    if content == DEFAULT:
        return package_map(DEFAULT)
    return None if content is None else EventMap.model_validate(content)


def is_default(events: EventMap) -> bool:
    """Whether a map is the package's `default`, which alone takes no number as a device or an account."""
    return events == package_map(DEFAULT)


def read_event_map(name_or_file: str) -> EventMap:
    """Read the map of `--events`; raises `ConfigurationError` with one line for a file that has a mistake."""
    names = sorted(file.name.removesuffix(_ENDING) for file in _MAPS.iterdir() if file.name.endswith(_ENDING))
    if name_or_file in names:
        return package_map(name_or_file)
    place = f"--events {name_or_file}"
    if not Path(name_or_file).is_file():
        msg = f"{place} is no file, and no map of this name is known: there are {', '.join(names)}"
        raise ConfigurationError(msg)
    return _checked(read_yaml_file(Path(name_or_file), place, PAGE), place)


def _checked(content: object, place: str) -> EventMap:
    try:
        return EventMap.model_validate(content)
    except ValidationError as error:
        # A wrong value comes before a missing one.
        first = min(error.errors(), key=lambda details: details["type"] == "missing")
        msg = f"{place}: {_explain(first)}"
        raise ConfigurationError(msg) from None


def _explain(error: ErrorDetails) -> str:
    kind, value = error["type"], error["input"]
    place = ".".join(part for part in error["loc"] if isinstance(part, str) and part not in _NOT_IN_A_FILE)
    text = {
        "literal_error": f"{value!r} is not known: write {error.get('ctx', {}).get('expected')}",
        "missing": f"is missing: write it as {PAGE} shows",
        "value_error": error["msg"].removeprefix("Value error, "),
    }.get(kind, f"{value!r} does not fit: {error['msg'][:1].lower()}{error['msg'][1:]}")
    return f"{place} {text}".lstrip()
