"""The default settings of the sessionize job."""

from pathlib import Path

from sessionization.core.session_state import Rules
from sessionization.settings.sessionize_settings import SessionizeSettings


def test_the_core_and_the_options_have_the_documented_default_rules() -> None:
    hour_ms = 3_600_000
    documented = Rules(
        heartbeat_ms=30_000, session_timeout_ms=12 * hour_ms, late_retention_ms=600_000, max_sessions_per_device=64
    )
    settings = SessionizeSettings(input=Path("in"), warehouse=Path("wh"), checkpoints=Path("cp"))
    assert Rules() == settings.rules == documented
