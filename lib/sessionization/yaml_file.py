"""YAML that people write: settings and event maps. Every value is read as text, and a key may not be there twice."""

from collections.abc import Hashable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from sessionization.errors import ConfigurationError


def read_yaml_file(file: Path | Traversable, place: str, page: str) -> Any:
    """Read a YAML file into texts, lists and mappings; None where there is nothing in it.

    Args:
        file: the file.
        place: the option and the file, for messages.
        page: the page of the documentation that shows such a file.

    Raises `ConfigurationError` for a file that cannot be read, is no YAML, or has a key twice.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        msg = f"{place} cannot be read ({cause}): name a file as {page} shows"
        raise ConfigurationError(msg) from error
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - it makes texts, lists and mappings only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "a character that it may not have"
        msg = f"{place}{line}: {problem}: write it as {page} shows"
        raise ConfigurationError(msg) from error


class _Loader(yaml.BaseLoader):  # type: ignore[misc]  # it has no types
    """Reads every value as the text that it is, as a command line does: `off` is no boolean, 30 no 30 milliseconds.

    Refuses a key that is there twice, of which YAML's own loader takes the last.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as PyYAML calls it
        seen: set[str] = set()
        for key, _value in node.value:
            if str(key.value) in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key.value} is there twice", key.start_mark)
            seen.add(str(key.value))
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found
