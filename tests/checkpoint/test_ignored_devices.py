"""A run says which `--expected-devices` the layout of its checkpoint does not follow."""

from pathlib import Path

import pytest

from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.checkpoint.pinned_settings import explain_ignored_devices
from sessionization.spark.checkpoint.state_layout import StateLayout
from tests.support.settings import settings_of


@pytest.mark.parametrize(
    ("devices", "layout", "expected"),
    [
        (100_000, StateLayout(), "keeps its state by device, not in 32 device groups"),
        (100, StateLayout(32), "keeps its state in 32 device groups, not by device"),
        (100_000, StateLayout(32), None),
        (None, StateLayout(32), None),
    ],
)
def test_a_run_reports_expected_devices_that_the_checkpoint_ignores(
    devices: int | None, layout: StateLayout, expected: str | None
) -> None:
    folders = {"input": Path("in"), "warehouse": Path("w"), "checkpoints": Path("c")}
    line = explain_ignored_devices(
        settings_of(SessionizeSettings, **folders, expected_devices=devices), Path("c"), layout
    )
    assert line is None if expected is None else line is not None and expected in line and "--from-sessions" in line
