"""Settings of a job that reads from Kafka."""

from pathlib import Path

from sessionization.settings.sessionize_settings import SessionizeSettings


def settings(servers: str, **options: object) -> SessionizeSettings:
    locations = {"warehouse": Path("w"), "checkpoints": Path("c")}
    return SessionizeSettings.model_validate({"source": "kafka", "bootstrap_servers": servers, **locations, **options})
