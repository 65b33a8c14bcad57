"""A field of the settings that names the time zone in which days begin."""

from typing import Annotated
from zoneinfo import available_timezones

from pydantic import AfterValidator


def check_time_zone(name: str) -> str:
    """Return `name`; raises `ValueError` where the IANA database has no such zone."""
    if name not in available_timezones():
        msg = f"{name} is no time zone: give a name of the IANA database, such as Europe/Berlin"
        raise ValueError(msg)
    return name


TimeZone = Annotated[str, AfterValidator(check_time_zone)]
