"""The settings of the stream: sections, their kinds, and what goes together."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from sessionization.command_line.parser import read_settings
from sessionization.core.session_state import Rules
from sessionization.errors import ConfigurationError
from sessionization.ops.maintenance_settings import InspectSettings, MaintainSettings
from sessionization.settings.rule_settings import RuleSettings
from sessionization.settings.sessionize_settings import RealTimePace, SessionizeSettings
from sessionization.settings.table_location_settings import TableLocationSettings
from tests.support.event_maps import WITH_PINGS

FOLDERS = ("--warehouse=w", "--checkpoints=c")
FILES = ("--input=in", *FOLDERS)
KAFKA = ("--source=kafka", "--bootstrap-servers=a:9092", *FOLDERS)
REAL_TIME = (*KAFKA, "--sink=kafka", "--mode=real-time")


def test_the_core_and_the_options_have_the_documented_default_rules() -> None:
    hour_ms = 3_600_000
    documented = Rules(
        heartbeat_ms=30_000, session_timeout_ms=12 * hour_ms, late_retention_ms=600_000, max_sessions_per_device=64
    )
    assert Rules() == RuleSettings().of_sessions == documented


def test_an_inactivity_timeout_needs_kinds_of_activity_and_a_memory_as_long(tmp_path: Path) -> None:
    (tmp_path / "map.yml").write_text(WITH_PINGS)
    options = (*FILES, "--inactivity-timeout=10m")
    with pytest.raises(ConfigurationError, match=r"^--inactivity-timeout: the map --events default has no kinds"):
        read_settings(SessionizeSettings, options)
    of_pings = (*options, f"--events={tmp_path / 'map.yml'}")
    assert read_settings(SessionizeSettings, of_pings).rules.of_sessions == Rules(inactivity_timeout_ms=600_000)
    with pytest.raises(ConfigurationError, match=r"^--late-retention 9m is shorter than --inactivity-timeout 10m: "):
        read_settings(SessionizeSettings, (*of_pings, "--late-retention=9m"))


def test_tables_in_a_catalog_bring_the_folders_of_their_volumes() -> None:
    settings = read_settings(SessionizeSettings, ("--catalog=main", "--schema=games"))
    assert settings.input_folder == Path("/Volumes/main/games/landing")
    assert settings.state.checkpoints == Path("/Volumes/main/games/checkpoints/sessionize")
    inspected = read_settings(InspectSettings, ("--catalog=main", "--schema=games"))
    assert inspected.state.checkpoints == settings.state.checkpoints
    given = read_settings(SessionizeSettings, ("--catalog=main", "--schema=games", "--input=i", "--checkpoints=c"))
    assert (given.input_folder, given.state.checkpoints) == (Path("i"), Path("c"))


OTHER_OPTIONS = {SessionizeSettings: FILES[::2], MaintainSettings: (), TableLocationSettings: ()}


@pytest.mark.parametrize("model", OTHER_OPTIONS)
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ("", "the tables need one location: give --warehouse PATH, or --catalog NAME and --schema NAME"),
        ("--warehouse=w --catalog=main --schema=games", "--catalog is not for tables of the kind folder: leave it out"),
        ("--schema=games", "--catalog is missing: give it"),
        ("--catalog=main", "--schema is missing: give it"),
        ("--warehouse=w --schema=games", "--schema is not for tables of the kind folder"),
    ],
)
def test_exactly_one_complete_table_location_is_required(model: type[BaseModel], argv: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(message)}"):
        read_settings(model, [*argv.split(), *OTHER_OPTIONS[model]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (FOLDERS, "--input is missing: give it, as in --input PATH"),
        (("--input=in", "--warehouse=w"), "--checkpoints is missing: give it"),
        ((KAFKA[0], *FOLDERS), "--bootstrap-servers is missing: give it, as in --bootstrap-servers HOST:PORT"),
        ((*KAFKA, "--input=x"), "--input is not for source of the kind kafka: leave it out"),
        ((*FILES, "--bootstrap-servers=a:1"), "--bootstrap-servers is not for source of the kind files: leave it out"),
        ((*FILES, "--output-topic=x"), "--output-topic is not for sink of the kind tables: leave it out"),
        ((*FILES, "--sink=kafka"), "--sink kafka needs --source kafka"),
        ((*FILES, "--source=ftp"), "--source 'ftp' is not known: write 'files' or 'kafka'"),
        ((*FILES, "--mode=real-time"), "--mode real-time needs --source kafka and --sink kafka"),
        ((*KAFKA, "--mode=real-time"), "--mode real-time needs --source kafka and --sink kafka"),
        ((*REAL_TIME, "--trigger=4999ms"), "--trigger '4999ms' is too small: write at least 5s"),
        ((*REAL_TIME, "--from-sessions"), "--mode real-time needs a checkpoint that begins empty: leave --from-"),
        ((*KAFKA, "--mode=realtime"), "--mode 'realtime' is not known: write 'micro-batch' or 'real-time'"),
        ((*KAFKA, "--max-offsets-per-trigger=0"), "--max-offsets-per-trigger '0' is too small"),
    ],
)
def test_a_wrong_or_missing_option_is_one_line_with_the_remedy(options: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{re.escape(message)}") as error:
        read_settings(SessionizeSettings, options)
    assert "\n" not in str(error.value)


def test_real_time_mode_has_the_trigger_of_its_own() -> None:
    assert read_settings(SessionizeSettings, REAL_TIME).pace == RealTimePace(mode="real-time")
    assert read_settings(SessionizeSettings, (*REAL_TIME, "--trigger=5s")).pace.trigger_ms == 5_000
    assert read_settings(SessionizeSettings, KAFKA).pace.trigger_ms == 1_000


def test_an_option_may_be_written_with_its_section() -> None:
    written_with = ("--source.input=in", "--tables.warehouse=w", "--state.checkpoints=c", "--rules.heartbeat=10s")
    assert read_settings(SessionizeSettings, written_with) == read_settings(
        SessionizeSettings, (*FILES, "--heartbeat=10s")
    )
