"""The settings file of a deployment: YAML with a section per subject, which all jobs read."""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from sessionization.errors import ConfigurationError

STREAM_SECTIONS = ("tables", "source", "sink", "rules", "pace", "state", "monitoring", "run_for")
"""What the stream reads; the other jobs read their parts of it."""
JOB_SECTIONS = ("maintain", "land_changes")
"""The options of other jobs, each in a section of its job's name."""


def read_settings_file(file: Path, model: type[BaseModel]) -> dict[str, Any]:
    """What a file says to a job: the sections of its settings, and the fields of the section with its own options.

    The model of the job checks the fields. Raises `ConfigurationError` for a file that cannot be read, is no YAML, has
    a key twice, or an unknown section.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        msg = f"--settings {file} cannot be read ({cause}): name a file with settings"
        raise ConfigurationError(msg) from error
    try:
        content = yaml.load(text, _Loader) or {}  # noqa: S506 - it makes texts, lists and mappings only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "a character that it may not have"
        msg = f"--settings {file}{line}: {problem}: write it as docs/settings.md shows"
        raise ConfigurationError(msg) from error
    if not isinstance(content, dict):
        msg = f"--settings {file} has no sections: write each as NAME: with its fields below, as docs/settings.md shows"
        raise ConfigurationError(msg)
    known = (*STREAM_SECTIONS, *JOB_SECTIONS)
    for name, section in content.items():
        if name not in known:
            msg = f"--settings {file}: {name} is no section; there are {', '.join(known)}"
            raise ConfigurationError(msg)
        if name != "run_for" and not isinstance(section, dict):
            msg = f"--settings {file}: {name} has no fields: write them below it, or leave it out"
            raise ConfigurationError(msg)
    own = str(getattr(model, "own_section", ""))
    # The run_for of a file is the stream's; another job has its own in its section.
    taken = {field.alias for field in model.model_fields.values()} - ({"run_for"} if own else set())
    return {**{name: value for name, value in content.items() if name in taken}, **content.get(own, {})}


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
