"""Tables have one location: the same words for whoever names none, two, or half of one."""

import pytest
from pydantic import BaseModel

from sessionization.command_line import parser
from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import MaintainSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.settings.table_location_settings import TableLocationSettings

NEEDED = {SessionizeSettings: "--input=in --checkpoints=c", MaintainSettings: "", TableLocationSettings: ""}


@pytest.mark.parametrize("model", NEEDED)
@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ("", "the tables need one location"),
        ("--warehouse=w --catalog=main --schema=games", "the tables need one location"),
        ("--schema=games", "the tables need one location"),
        ("--catalog=main", "--catalog and --schema go together"),
        ("--warehouse=w --schema=games", "--catalog and --schema go together"),
    ],
)
def test_one_home_and_all_of_it(model: type[BaseModel], argv: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parser.read(model, [*argv.split(), *NEEDED[model].split()])
