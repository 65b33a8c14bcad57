"""What the sections of a settings file have in common."""

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Discriminator
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


def kind_by(key: str, default: str) -> Discriminator:
    """Choose the class of a section by the text of a key."""

    def kind(section: Any) -> str:
        text = getattr(section, key, None) if isinstance(section, Section) else section.get(key)
        return default if text is None else str(text)

    return Discriminator(kind)
