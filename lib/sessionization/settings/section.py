"""What the sections of a settings file have in common."""

from typing import Final

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

EVENTS: Final = "event map: what the messages mean; the name of one of the package, or a file (docs/your-own-events.md)"
EVENTS_METAVAR: Final[JsonDict] = {"metavar": "NAME|FILE"}


def written_name(field_name: str) -> str:
    """The name of a field in a settings file and as an option: a duration is written with its unit, `heartbeat: 30s`.

    >>> written_name("heartbeat_ms"), written_name("schema_name")
    ('heartbeat', 'schema')
    """
    return field_name.removesuffix("_ms").removesuffix("_name")


class Section(BaseModel):
    """A part of the settings. Durations are milliseconds in code (`heartbeat_ms`) and text in a file (`heartbeat`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=written_name)
