"""The settings of `jobs/players.py`: one field per option, all checked here."""

from typing import ClassVar

from pydantic import Field

from sessionization.settings.table_location_settings import TableLocationSettings
from sessionization.settings.time_zone import TimeZone


class PlayersSettings(TableLocationSettings):
    """Bring the tables of players and days up to date: player_days, daily_activity, retention.

    It computes anew the days that changed since its last run. The sessionize job may run meanwhile.
    """

    own_section: ClassVar[str] = "players"

    time_zone: TimeZone = Field(
        "UTC",
        description="zone in which days begin and end, as Europe/Berlin; another one needs --rebuild",
        json_schema_extra={"metavar": "ZONE"},
    )
    rebuild: bool = Field(default=False, description="compute all days anew, not only those that changed")
