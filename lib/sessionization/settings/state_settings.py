"""The section `state` as the jobs beside the stream read it: where the stream's checkpoints are."""

from typing import Any, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator

from sessionization.event_map.model import EventMap
from sessionization.event_map.reading import read_event_map
from sessionization.settings.section import EVENTS, EVENTS_METAVAR, Section, written_name
from sessionization.settings.table_location_settings import Location, TableLocationSettings, Tables, volume

CHECKPOINTS_VOLUME = "checkpoints/sessionize"
"""Where the stream's checkpoints are in a schema of a catalog, unless the settings say otherwise."""


def checkpoints_in_volume(settings: Any) -> Any:
    """Fill in the checkpoints of raw settings whose tables are in a catalog."""
    folder = volume(settings.get("tables"), CHECKPOINTS_VOLUME) if isinstance(settings, dict) else None
    if folder is None or not isinstance(state := settings.get("state", {}), dict):
        return settings
    return settings | {"state": {"checkpoints": folder} | state}


class CheckpointState(Section):
    """The stream's checkpoints. What else a file has in this section is for the stream alone, which checks it."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=written_name)

    checkpoints: Location | None = Field(
        None, description="folder of the stream's checkpoints; in a catalog by default in its volume checkpoints"
    )


class CheckpointSettings(TableLocationSettings):
    """The settings of a job that works on the tables, and reads the checkpoints of the stream."""

    state: CheckpointState = CheckpointState()

    _fill_in_checkpoints = model_validator(mode="before")(checkpoints_in_volume)

    def require_checkpoints(self, why: str) -> None:
        """Raises `ValueError` for tables in folders without checkpoints."""
        if self.state.checkpoints is None:
            msg = f"--warehouse needs --checkpoints: {why}"
            raise ValueError(msg)


class ArchiveSettings(CheckpointSettings):
    """The settings of a job that reads archived messages."""

    events: str | None = Field(
        None,
        description=f"{EVENTS}; without it, the one that the checkpoint remembers",
        json_schema_extra=EVENTS_METAVAR,
    )

    _event_map: EventMap | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _read_events(self) -> Self:
        if self.events is not None:
            self._event_map = read_event_map(self.events)
        return self

    @property
    def event_map(self) -> EventMap | None:
        """What the messages mean; None where the checkpoint says it."""
        return self._event_map


class KnownCheckpointState(CheckpointState):
    """The checkpoints, without which a job has nothing to do."""

    checkpoints: Location = Field(description=str(CheckpointState.model_fields["checkpoints"].description))


class StateSettings(Section):
    """The settings of a job that works on the checkpoints of the stream, and on no tables."""

    tables: Tables | None = None
    state: KnownCheckpointState

    _fill_in_checkpoints = model_validator(mode="before")(checkpoints_in_volume)
