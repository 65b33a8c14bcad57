"""Simulator and job together, with a live view in the terminal: `make demo`, `make demo-kafka`, `make demo-serving`."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from sessionization.command_line.parser import run_job
from sessionization.say import Say


class DemoSettings(BaseModel):
    """Play an evening, sessionize it, and show what to query."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: Literal["files", "kafka"] = Field("files", description="what the evening is played through")
    serving: bool = Field(
        default=False, description="also keep the live sessions in a Postgres of its own, and ask that"
    )
    picture: Path | None = Field(None, description="a file for the last live view, as an SVG image")
    folder: Path = Field(Path(".demo"), description="where the input, the tables and the checkpoints go")


def main(settings: DemoSettings, _say: Say) -> None:
    simulate, serve = (Path(__file__).with_name(f"{job}.py") for job in ("simulate", "serve_sessions"))
    if settings.serving:
        from sessionization_laptop.demo_serving import demo_serving

        demo_serving(settings.folder, simulate, serve, settings.source)
    else:
        from sessionization_laptop.demo import demo

        demo(settings.folder, simulate, settings.source, settings.picture)


def command() -> None:
    run_job(main, DemoSettings, "demo")


if __name__ == "__main__":
    command()
