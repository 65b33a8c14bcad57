"""The archive of classes: used where there is one, and written once."""

import os
from pathlib import Path

import pytest

from sessionization.local_engine import class_archive
from sessionization.local_engine.class_archive import archive_classes, archive_options


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "with space" / "classes.jsa"
    file.parent.mkdir()
    monkeypatch.setattr(class_archive, "ARCHIVE", file)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    return file


def engine_that_ends(monkeypatch: pytest.MonkeyPatch, *, writes: bool) -> None:
    """Let the engine end at once, with or without writing the archive that its options name."""

    def end() -> None:
        if writes:
            Path(os.environ["SPARK_SUBMIT_OPTS"].partition("AtExit=")[2].partition('"')[0]).touch()

    monkeypatch.setattr(class_archive, "_end_engine", end)


def test_an_engine_uses_an_archive_that_exists(archive: Path) -> None:
    assert archive_options() == ""
    archive.touch()
    assert archive_options().startswith(f'"-XX:SharedArchiveFile={archive}" -Xshare:auto ')


@pytest.mark.parametrize("writes", [True, False])
def test_the_archive_is_whole_or_missing(archive: Path, monkeypatch: pytest.MonkeyPatch, *, writes: bool) -> None:
    engine_that_ends(monkeypatch, writes=writes)
    with archive_classes():
        assert os.environ["SPARK_SUBMIT_OPTS"].startswith('-Da=b "-XX:ArchiveClassesAtExit=')
        assert not archive.exists()
    assert archive.exists() is writes
    assert list(archive.parent.iterdir()) == ([archive] if writes else [])


def test_an_archive_is_not_written_again(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_that_ends(monkeypatch, writes=True)
    archive.touch()
    with archive_classes():
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"


def test_a_failed_run_writes_no_archive(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_that_ends(monkeypatch, writes=True)
    with pytest.raises(KeyError), archive_classes():
        raise KeyError
    assert list(archive.parent.iterdir()) == []
