"""docs/settings.md shows a settings file with every field, and with the defaults."""

import re
from pathlib import Path
from typing import Any

import yaml

from sessionization.command_line.options import options_of
from sessionization.command_line.parser import read_settings
from sessionization.ops.maintenance_settings import LandChangesSettings, MaintainSettings
from sessionization.players.players_settings import PlayersSettings
from sessionization.serving.serving_settings import ServingSettings
from sessionization.settings.sessionize_settings import SessionizeSettings

PAGE = Path(__file__).parents[2] / "docs/settings.md"
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def shown_paths() -> set[str]:
    """Every field of the example, also those behind a comment sign, as `rules.heartbeat`."""
    paths, section = set(), ""
    for line in EXAMPLE.splitlines():
        indent, name = re.fullmatch(r"( *)(?:# )?([a-z_]+):.*", line).groups()  # type: ignore[union-attr]
        if indent:
            paths.add(f"{section}.{name}")
        else:
            section = name
            paths.add(name)
    return paths


def test_the_page_shows_every_field_and_no_other() -> None:
    fields = {".".join(option.path) for option in options_of(SessionizeSettings)} - {"settings"}
    for model in (MaintainSettings, LandChangesSettings, PlayersSettings, ServingSettings):
        fields |= {f"{model.own_section}.{option.path[0]}" for option in options_of(model)[1:] if len(option.path) == 1}
    sections = {path.partition(".")[0] for path in fields}
    assert shown_paths() == fields | sections


def test_the_values_that_the_page_shows_are_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.yml"
    file.write_text(EXAMPLE, encoding="utf-8")
    shown: dict[str, Any] = yaml.safe_load(EXAMPLE)
    places = ["--warehouse=/data/warehouse", "--checkpoints=/data/checkpoints"]
    from_file, by_default = (
        read_settings(SessionizeSettings, given) for given in ([f"--settings={file}"], [*places, "--input=/data/input"])
    )
    assert from_file == by_default
    assert read_settings(MaintainSettings, [f"--settings={file}"]) == read_settings(MaintainSettings, places)
    assert shown["land_changes"] == {"trigger": "1s"}
    postgres = f"--postgres={shown['serving']['postgres']}"
    served = read_settings(ServingSettings, [f"--settings={file}"])
    assert served == read_settings(ServingSettings, [*places[:1], postgres])
