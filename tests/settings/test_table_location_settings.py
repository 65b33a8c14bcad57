"""Tables have one location: every job refuses none, two, or half of one with the same message."""

import pytest
from pydantic import BaseModel

from sessionization.command_line import parser
from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import MaintainSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.settings.table_location_settings import TableLocationSettings

OTHER_OPTIONS = {SessionizeSettings: "--input=in --checkpoints=c", MaintainSettings: "", TableLocationSettings: ""}


@pytest.mark.parametrize("model", OTHER_OPTIONS)
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("", "the tables need one location"),
        ("--warehouse=w --catalog=main --schema=games", "the tables need one location"),
        ("--schema=games", "the tables need one location"),
        ("--catalog=main", "--catalog and --schema go together"),
        ("--warehouse=w --schema=games", "--catalog and --schema go together"),
    ],
)
def test_exactly_one_complete_table_location_is_required(model: type[BaseModel], argv: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parser.read_settings(model, [*argv.split(), *OTHER_OPTIONS[model].split()])
