"""Tables for the notebooks on a laptop: an evening that is over, run through the real job twice, and players for later."""

import json
import os
import sys
import threading
from pathlib import Path

from sessionization.cli import run as run_main
from sessionization.local.notebook import WIDGETS_FILE, demo_folder
from sessionization.local.session import SHORT_LIVED_JVM
from sessionization.settings import SessionizeSettings
from sessionization.simulate.run import simulate
from sessionization.simulate.settings import SimulateSettings

RUNS = ({"heartbeat": 5_000, "trigger": 1_000}, {"heartbeat": 2_000, "trigger": 500})
"""What the two runs differ in, so that there is something to compare."""


def load(folder: Path, *, live: int = 150, run_for_ms: int = 30_000) -> None:
    """Play an hour of an evening that ends now, and run the job on it twice; does nothing where that was done.

    Leaves `input`, `warehouse`, `checkpoints`, `mlflow.db` and the values of the notebooks' widgets in `folder`. A load
    that was cut off goes on where it was.
    """
    if (folder / WIDGETS_FILE).exists():
        return
    from sessionization.spark.run import Watch, run
    from sessionization.spark.session import spark_session

    folder.mkdir(parents=True, exist_ok=True)
    simulate(_evening(folder / "input", live), report=_say)
    spark = spark_session(folder / "engine.log")  # one for both runs
    try:
        for number, changed in enumerate(RUNS):
            settings = SessionizeSettings.model_validate(
                {
                    "input": folder / "input",
                    "warehouse": folder / "warehouse",
                    "checkpoints": folder / "checkpoints",
                    "mlflow": "sessionization",
                    "run_for": run_for_ms,
                    **changed,
                }
            )
            if number:
                play(folder / "input", seconds=run_for_ms // 1_000)
            run(settings, threading.Event(), Watch(_say))
    finally:
        spark.stop()
    (folder / WIDGETS_FILE).write_text(json.dumps(_widgets(folder), indent=2), encoding="utf-8")


def play(output: Path, *, seconds: int = 180) -> None:
    """Let some devices play into `output` for a while, in the background, as the job `simulate` does in a workspace."""
    settings = SimulateSettings.model_validate(
        {"output": output, "live": 80, "session_length": "60s", "duration": f"{seconds}s", "dirt": 0.1, "seed": 2}
    )
    player = threading.Thread(target=simulate, args=(settings,), kwargs={"report": lambda _: None}, daemon=True)
    player.start()


def _evening(output: Path, live: int) -> SimulateSettings:
    return SimulateSettings.model_validate(
        {
            "output": output,
            "live": live,
            "session_length": "12m",
            "duration": "1h",
            "pace": "max",
            "file_interval": "60s",
            "dirt": 0.08,
        }
    )


def _widgets(folder: Path) -> dict[str, str]:
    """What the notebooks' widgets say on this machine, each by the widget's name."""
    return {
        "input": str(folder / "input"),
        "warehouse": str(folder / "warehouse"),
        "checkpoints": str(folder / "checkpoints"),
        "folder": str(folder / "tour"),
        "heartbeat": "5s",
        "run-for": "1m",
    }


def _say(line: str) -> None:
    sys.stderr.write(f"demo: {line}\n")
    sys.stderr.flush()


def _main() -> int:
    folder = demo_folder()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM)
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    load(folder)
    return 0


if __name__ == "__main__":
    run_main(_main, "notebook-data")
