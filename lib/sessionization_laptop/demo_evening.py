"""What the demos share: an evening of players, the job that runs on it for a while, and a view of both."""

import io
import os
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel

from sessionization.errors import ConfigurationError
from sessionization.event_map.reading import PLAYSTATION, package_map
from sessionization.files import refuse_unwritable
from sessionization.job.sessionize_job import run
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.folder import LAYOUT_FILE
from sessionization.spark.engine.session import job_session
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.tables.schemas import TABLES
from sessionization.stop_signals import stop_on_signals
from sessionization_laptop.broker import Broker
from sessionization_laptop.engine.local_session import SHORT_LIVED_JVM_OPTIONS

HEARTBEAT = "10s"
Source = Literal["files", "kafka"]
_WIDTH = 80
_TOPIC_PARTITIONS = 2


@dataclass
class DemoView:
    """What a terminal shows while the job runs: its newest progress, answers to questions, and notes.

    Where there is no terminal, lines are printed.
    """

    console: Console = field(default_factory=Console)
    progress: str = "no micro-batch yet"
    answers: list[RenderableType] = field(default_factory=list)
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=3))

    def __rich__(self) -> Group:
        title, stop = "gaming sessionization", "Ctrl-C stops it"
        progress = Panel(self.progress, title=title, subtitle=stop, title_align="left")
        return Group(progress, *self.answers, *self.notes)

    def say(self, line: str) -> None:
        self.notes.append(line)
        self._print(line)

    def say_progress(self, line: str) -> None:
        self.progress = line
        self._print(line)

    def picture(self) -> str:
        """The view as an SVG image, without fonts from elsewhere."""
        console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(self)
        return re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="make demo"), flags=re.DOTALL)

    def _print(self, line: str) -> None:
        if not self.console.is_terminal:
            self.console.print(line, markup=False)


@dataclass(frozen=True)
class Evening:
    """Players and a job that have a folder: `simulator` is the command that plays, for longer than the job runs."""

    folder: Path
    simulator: list[str | Path]
    settings: SessionizeSettings

    @property
    def location(self) -> TableLocation:
        return TableLocation.of(self.settings.tables)

    def play(
        self,
        view: DemoView,
        look: Callable[[SparkSession], None],
        every_s: float,
        at_end: Callable[[SparkSession], None],
    ) -> list[str]:
        """Run players and job, and return the job's summary; Ctrl-C or SIGTERM ends them earlier.

        Once there are tables, a thread calls `look` again and again. After the job `at_end` is called.
        """
        is_over = threading.Event()

        def look_again(spark: SparkSession) -> None:
            while not is_over.wait(every_s):
                if not self.location.missing(spark, TABLES):
                    look(spark)

        os.environ.setdefault("JAVA_TOOL_OPTIONS", SHORT_LIVED_JVM_OPTIONS)
        if (self.folder / "checkpoints" / LAYOUT_FILE).is_file():
            view.say(f"this demo continues the tables of an earlier one; to begin anew, delete {self.folder}")
        view.say("Spark is starting (about 20 s); in this demo a session beats every 10 s")
        simulation = subprocess.Popen([sys.executable, *self.simulator], stderr=subprocess.DEVNULL)
        try:
            with (
                stop_on_signals() as stop,
                Live(view, console=view.console, refresh_per_second=4, transient=True),
                job_session(self.folder / "engine.log") as spark,
            ):
                looking = threading.Thread(target=look_again, args=(spark,), daemon=True)
                looking.start()
                summary = run(self.settings, stop, view.say, say_progress=view.say_progress)
                is_over.set()
                looking.join()
                at_end(spark)
        finally:
            is_over.set()
            simulation.terminate()
            simulation.wait()
        return summary


@contextmanager
def evening(folder: Path, simulate: Path, source: Source, seconds: int) -> Iterator[Evening]:
    """Prepare an evening through files or a Kafka broker, on which the job runs for some seconds.

    `simulate` is the simulator's script. The tables stay in `folder`/warehouse; the next evening continues with them.

    Raises `ConfigurationError` where `folder` cannot be written, as in a read-only checkout.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        refuse_unwritable(folder)
    except OSError as error:
        msg = f"--folder {folder} cannot be written ({error.strerror}): give another (make: DEMO=FOLDER)"
        raise ConfigurationError(msg) from error
    with _prepared_source(source, folder) as (sink_options, source_settings):
        players = (
            "--live", "300", "--rate", "20", "--duration", f"{seconds + 60}s", "--dirt", "0.1", "--events", PLAYSTATION,
        )  # fmt: skip
        settings = SessionizeSettings.model_validate(
            {
                "source": source_settings,
                "tables": {"warehouse": folder / "warehouse"},
                "rules": {"heartbeat": HEARTBEAT},
                "state": {"checkpoints": folder / "checkpoints"},
                "events": PLAYSTATION,
                "run_for": seconds * 1_000,
            }
        )
        yield Evening(folder, [simulate, *sink_options, *players], settings)


@contextmanager
def _prepared_source(source: Source, folder: Path) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Yield the simulator's options and the job's settings for a source; run a broker if the source needs one."""
    if source == "files":
        (folder / "input").mkdir(parents=True, exist_ok=True)
        yield ["--output", str(folder / "input")], {"input": folder / "input"}
        return
    with Broker(folder / "kafka") as broker:
        broker.create_topics(dict.fromkeys(package_map(PLAYSTATION).stream_names, _TOPIC_PARTITIONS))
        servers = broker.bootstrap_servers
        yield ["--sink", "kafka", "--bootstrap-servers", servers], {"type": "kafka", "bootstrap_servers": servers}
