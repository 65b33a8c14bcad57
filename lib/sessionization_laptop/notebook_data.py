"""Demo tables for notebooks on a laptop: the real job, run twice on a simulated evening; later players."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sessionization.command_line.parser import run as run_main
from sessionization.command_line.parser import say_on_stderr
from sessionization.event_map.reading import PLAYSTATION
from sessionization.ml.runs import EXPERIMENT
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS
from sessionization_laptop.notebook_folders import INPUT, WIDGETS_FILE, notebook_data_folder, write_widget_values
from sessionization_simulator.simulate_job import simulate
from sessionization_simulator.simulate_settings import SimulateSettings

RUNS = ({"rules": {"heartbeat": "5s"}}, {"rules": {"heartbeat": "2s"}, "pace": {"trigger": "500ms"}})
"""The settings that differ between the two runs, so that there is something to compare."""
_EVENING = {"session_length": "12m", "past": "1h", "duration": "2h", "events": PLAYSTATION}
_PROG = "notebook-data"
_say = say_on_stderr(_PROG)


def load_demo_tables(folder: Path, *, live: int = 150, dirt: float = 0.08, run_for_ms: int = 30_000) -> None:
    """Play an evening that began an hour ago, and run the job on it twice; does nothing if `folder` is complete.

    The players hold `live` sessions, and the share `dirt` of their messages is wrong. Each run lasts `run_for_ms`.
    Writes `input`, `warehouse`, `checkpoints`, `mlflow.db` and the values of the notebooks' widgets into `folder`. An
    interrupted load continues at the next call.
    """
    if (folder / WIDGETS_FILE).exists():
        return
    from sessionization.job.sessionize_job import run
    from sessionization.spark.engine.session import job_session

    (folder / INPUT).mkdir(parents=True, exist_ok=True)
    # One session for both runs, and the same players during both.
    with (
        job_session(folder / "engine.log"),
        players(SimulateSettings.model_validate(_EVENING | {"output": folder / INPUT, "live": live, "dirt": dirt})),
    ):
        for differing_settings in RUNS:
            settings = SessionizeSettings.model_validate(
                {
                    "source": {"input": folder / INPUT},
                    "tables": {"warehouse": folder / "warehouse"},
                    "state": {"checkpoints": folder / "checkpoints"},
                    "monitoring": {"mlflow": EXPERIMENT},
                    "events": PLAYSTATION,
                    "run_for": run_for_ms,
                    **differing_settings,
                }
            )
            run(settings, threading.Event(), _say)
    write_widget_values(folder, heartbeat="5s")


def play_evening(output: Path) -> None:
    """Let simulated devices play into `output` in the background, as the job `simulate` does in a workspace."""
    settings = {
        "output": output, "live": 80, "session_length": "60s", "duration": "180s", "dirt": 0.1, "seed": 2,
        "events": PLAYSTATION,
    }  # fmt: skip
    _start_players(SimulateSettings.model_validate(settings), threading.Event())


@contextmanager
def players(settings: SimulateSettings) -> Iterator[None]:
    """Let simulated devices play during the body."""
    stop = threading.Event()
    thread = _start_players(settings, stop)
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _start_players(settings: SimulateSettings, stop: threading.Event) -> threading.Thread:
    options = {"stop": stop, "report": lambda _: None}
    thread = threading.Thread(target=simulate, args=(settings,), kwargs=options, daemon=True)
    thread.start()
    return thread


def _main() -> int:
    folder = notebook_data_folder()
    os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
    os.environ.setdefault("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    load_demo_tables(folder)
    return 0


if __name__ == "__main__":
    run_main(_main, _PROG)
