"""Settings of a job that reads from Kafka."""

from pathlib import Path

from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.support.settings import settings_of


def settings(servers: str, **options: object) -> SessionizeSettings:
    locations = {"warehouse": Path("w"), "checkpoints": Path("c")}
    return settings_of(SessionizeSettings, {"source": "kafka", "bootstrap_servers": servers, **locations, **options})
