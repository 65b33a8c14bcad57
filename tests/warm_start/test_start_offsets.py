"""The first offsets of a warm start: the checkpoint stores them before a query starts, later starts read them."""

from pathlib import Path

import pytest

from sessionization.errors import CheckpointError
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.opening import open_checkpoint
from sessionization.spark.checkpoint.pinned_settings import PinnedSettings
from sessionization.spark.job_context import JobContext
from sessionization.spark.tables.location import TableLocation
from sessionization.spark.warm_start import read_position
from sessionization.spark.warm_start.initial_state import InitialState, warm_start
from tests.support.checkpoint_folder import begin_micro_batch
from tests.support.settings import settings_of


def run_warm_start(folder: Path) -> InitialState:
    """Run the part of a warm start that needs no Spark."""
    settings = settings_of(
        SessionizeSettings,
        source="kafka",
        bootstrap_servers="b:9092",
        warehouse=folder / "w",
        checkpoints=folder,
        from_sessions=True,
    )
    checkpoint = open_checkpoint(folder, PinnedSettings.of(settings, "tables"), settings.rules.of_sessions, warm=True)
    checkpoint.write()
    location = TableLocation(settings.tables.warehouse)
    return warm_start(JobContext(None, settings, checkpoint, location))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["", "3", '{"pc_sessions": {"x": 1}}', "\xff"],
)
def test_an_unreadable_starts_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(read_position, "next_offsets", interrupted)
    with pytest.raises(InterruptedError):
        run_warm_start(tmp_path)
    begin_micro_batch(tmp_path, 0, 1_000)  # from now on the file is read, not written again
    (tmp_path / "starts.json").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointError, match=r"starts\.json is not readable \(.*\): restore it from a backup"):
        run_warm_start(tmp_path)


def interrupted(*_args: object) -> None:
    raise InterruptedError
