"""Paths of an event map: where a value is in a message."""

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import AfterValidator

_NAME = re.compile(r'"[^"]+"|[^".\[\]]+')
_PATH = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))*")
_NEEDS_QUOTES = re.compile(r"[.\[\]]")

Names = tuple[str, ...]
"""A path, name by name: where a value is in a message."""


def names_of(path: str) -> Names:
    """The names of a path.

    >>> names_of('device."os.name"')
    ('device', 'os.name')
    """
    return tuple(name.strip('"') for name in _NAME.findall(path))


def tree_of(paths: Iterable[Names]) -> dict[str, Any]:
    """The paths as fields within fields; one at the end of a path has none.

    >>> tree_of([("device", "id"), ("device", "os"), ("at",)])
    {'device': {'id': {}, 'os': {}}, 'at': {}}
    """
    tree: dict[str, Any] = {}
    for path in paths:
        fields = tree
        for name in path:
            fields = fields.setdefault(name, {})
    return tree


def written(names: Names) -> str:
    """The path as a map has it.

    >>> written(("device", "os.name"))
    'device."os.name"'
    """
    return ".".join(f'"{name}"' if _NEEDS_QUOTES.search(name) else name for name in names)


def _check_path(path: str) -> str:
    """Return the path in the one way in which it is compared and stored."""
    if _PATH.fullmatch(path) is None or any(name != name.strip() for name in names_of(path)):
        msg = f"{path!r} is no path: write names joined by dots, a name with a dot in double quotes; it enters no list"
        raise ValueError(msg)
    return written(names_of(path))


FieldPath = Annotated[str, AfterValidator(_check_path)]
