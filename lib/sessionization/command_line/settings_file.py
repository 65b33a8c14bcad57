"""The settings file of a deployment: YAML with a section per subject, which all jobs read."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sessionization.errors import ConfigurationError
from sessionization.yaml_file import read_yaml_file

STREAM_SECTIONS = ("tables", "source", "events", "sink", "rules", "pace", "state", "monitoring", "run_for")
"""What the stream reads; the other jobs read their parts of it."""
JOB_SECTIONS = ("maintain", "land_changes", "players", "serving")
"""The options of other jobs, each in a section of its job's name."""
_WITHOUT_FIELDS = ("events", "run_for")


def read_settings_file(file: Path, model: type[BaseModel]) -> dict[str, Any]:
    """What a file says to a job: the sections of its settings, and the fields of the section with its own options.

    The model of the job checks the fields. Raises `ConfigurationError` for a file that cannot be read, is no YAML, has
    a key twice, or an unknown section.
    """
    content = read_yaml_file(file, f"--settings {file}", "docs/settings.md") or {}
    if not isinstance(content, dict):
        msg = f"--settings {file} has no sections: write each as NAME: with its fields below, as docs/settings.md shows"
        raise ConfigurationError(msg)
    known = (*STREAM_SECTIONS, *JOB_SECTIONS)
    for name, section in content.items():
        if name not in known:
            msg = f"--settings {file}: {name} is no section; there are {', '.join(known)}"
            raise ConfigurationError(msg)
        if name not in _WITHOUT_FIELDS and not isinstance(section, dict):
            msg = f"--settings {file}: {name} has no fields: write them below it, or leave it out"
            raise ConfigurationError(msg)
    own = str(getattr(model, "own_section", ""))
    # The run_for of a file is the stream's; another job has its own in its section.
    taken = {field.alias for field in model.model_fields.values()} - ({"run_for"} if own else set())
    return {**{name: value for name, value in content.items() if name in taken}, **content.get(own, {})}
