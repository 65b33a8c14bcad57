"""The settings of the sessionize job that a person gets without giving them."""

from pathlib import Path

from sessionization.core.session_state import Rules
from sessionization.settings.sessionize_settings import SessionizeSettings


def test_the_rules_by_default_are_those_of_the_page_in_the_core_and_as_options() -> None:
    hour_ms = 3_600_000
    by_the_page = Rules(
        heartbeat_ms=30_000, session_timeout_ms=12 * hour_ms, late_retention_ms=600_000, max_sessions_per_device=64
    )
    settings = SessionizeSettings(input=Path("in"), warehouse=Path("wh"), checkpoints=Path("cp"))
    assert Rules() == settings.rules == by_the_page
