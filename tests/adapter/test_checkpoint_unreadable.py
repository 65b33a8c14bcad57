"""What is told of a checkpoint that cannot be read or written."""

import errno
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sessionization.errors import CheckpointError, ConfigurationError
from sessionization.spark.checkpoint.folder import Checkpoint, read_checkpoint
from tests.adapter.test_checkpoint import begin_micro_batch, reopened


@pytest.mark.parametrize("look", [reopened, read_checkpoint])
def test_a_log_that_cannot_be_listed_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], Checkpoint]
) -> None:
    reopened(tmp_path)
    begin_micro_batch(tmp_path, 0, 1_000)

    def refused(_folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(CheckpointError, match=r"sessionize/offsets cannot be read \(Permission denied\)"):
        look(tmp_path)


@pytest.mark.parametrize("look", [reopened, read_checkpoint])
@pytest.mark.parametrize("spoilt", [{"begun_ms": "soon"}, {"fixed": []}, {"rules": {"heartbeat": 1}}, {"id": ...}])
def test_a_layout_of_another_form_is_told_by_whoever_reads_it(
    tmp_path: Path, look: Callable[[Path], Checkpoint], spoilt: dict
) -> None:
    reopened(tmp_path)
    file = tmp_path / "layout.json"
    said = json.loads(file.read_text()) | spoilt
    file.write_text(json.dumps({name: value for name, value in said.items() if value is not ...}))
    with pytest.raises(CheckpointError, match=r"layout\.json is not readable"):
        look(tmp_path)


@pytest.mark.parametrize("text", ["null", "[]", "\xff"])
def test_a_file_that_is_no_layout_begins_no_new_checkpoint(tmp_path: Path, text: str) -> None:
    (tmp_path / "layout.json").write_text(text, encoding="latin-1")
    for look in (reopened, read_checkpoint):
        with pytest.raises(CheckpointError, match=r"layout\.json is not readable"):
            look(tmp_path)


def test_a_layout_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = reopened(tmp_path)

    def full(_file: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sessionization.spark.checkpoint.folder.write_atomically", full)
    (tmp_path / "layout.json").unlink()
    for write in (
        opened.restore_layout_file,
        opened.save_as_warm,
        lambda: opened.with_sink("kafka"),
        lambda: reopened(tmp_path),
    ):
        with pytest.raises(ConfigurationError, match=r"cannot be written \(No space left on device\): give a folder"):
            write()
