"""Errors for a checkpoint that cannot be read or written."""

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.spark.checkpoint.folder import Checkpoint, read_checkpoint
from tests.support.checkpoint_folder import reopened
from tests.support.failing import failing_with


@pytest.mark.parametrize("read", [reopened, read_checkpoint])
@pytest.mark.parametrize("changed", [{"created_ms": "soon"}, {"pinned": []}, {"rules": {"heartbeat": 1}}, {"id": ...}])
def test_a_layout_file_of_another_form_is_an_error(
    tmp_path: Path, read: Callable[[Path], Checkpoint], changed: dict
) -> None:
    reopened(tmp_path)
    file = tmp_path / "layout.json"
    layout = json.loads(file.read_text()) | changed
    file.write_text(json.dumps({name: value for name, value in layout.items() if value is not ...}))
    with pytest.raises(CheckpointError, match=r"layout\.json is not readable"):
        read(tmp_path)


@pytest.mark.parametrize("text", ["null", "[]", "\xff"])
def test_a_file_that_is_no_layout_is_an_error_and_begins_no_new_checkpoint(tmp_path: Path, text: str) -> None:
    (tmp_path / "layout.json").write_text(text, encoding="latin-1")
    for read in (reopened, read_checkpoint):
        with pytest.raises(CheckpointError, match=r"layout\.json is not readable"):
            read(tmp_path)


def test_a_layout_file_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = reopened(tmp_path)
    for name in ("replace_verified", "write_new"):
        monkeypatch.setattr(f"sessionization.spark.checkpoint.folder.{name}", failing_with(errno.ENOSPC))
    (tmp_path / "layout.json").unlink()
    for write in (
        opened.restore_layout_file,
        opened.write,
        lambda: opened.with_sink("kafka"),
        lambda: reopened(tmp_path),
    ):
        with pytest.raises(ConfigurationError, match=r"cannot be written \(No space left on device\): give a folder"):
            write()
