"""The section `state` as the jobs beside the stream read it: where the stream's checkpoints are."""

from typing import Any

from pydantic import ConfigDict, Field, model_validator

from sessionization.settings.section import Section, written_name
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


class KnownCheckpointState(CheckpointState):
    """The checkpoints, without which a job has nothing to do."""

    checkpoints: Location = Field(description=str(CheckpointState.model_fields["checkpoints"].description))


class StateSettings(Section):
    """The settings of a job that works on the checkpoints of the stream, and on no tables."""

    tables: Tables | None = None
    state: KnownCheckpointState

    _fill_in_checkpoints = model_validator(mode="before")(checkpoints_in_volume)
