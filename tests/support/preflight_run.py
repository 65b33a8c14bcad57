"""A preflight and what it reported."""

from pathlib import Path
from typing import Any

from sessionization.errors import ConfigurationError
from sessionization.ops.preflight import preflight
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.support.settings import settings_of


def settings(folder: Path, **given: Any) -> SessionizeSettings:
    source = {} if "bootstrap_servers" in given else {"input": folder / "input"}
    places = {"warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints"}
    return settings_of(SessionizeSettings, **{**source, **places, "mlflow": "off", **given})


def run(settings: SessionizeSettings) -> dict[str, tuple[bool, str]]:
    """By check whether it passed, and its line. The preflight fails exactly if a check does."""
    lines: list[str] = []
    failure = None
    try:
        preflight(settings, lines.append)
    except ConfigurationError as error:
        failure = str(error)
    found = {}
    for line in lines:
        verdict, _, rest = line.partition(" ")
        name, _, text = rest.strip().partition(": ")
        if verdict in {"ok", "FAILED"}:
            found[name] = (verdict == "ok", text)
    failed = [name for name, (is_ok, _) in found.items() if not is_ok]
    assert failure == (
        f"{', '.join(failed)} failed: do what the lines above say, and run this again" if failed else None
    )
    return found
