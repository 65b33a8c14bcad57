"""The archive of classes: used where there is one for this Java and these jars, and written once."""

import os
from pathlib import Path

import pytest

from sessionization_laptop.engine import class_archive
from sessionization_laptop.engine.class_archive import archive_classes, archive_file, archive_options


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the archives; a Java and a jar for them."""
    home, folder = tmp_path / "java", tmp_path / "with space"
    home.mkdir()
    folder.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.1"')
    monkeypatch.setattr(class_archive, "java_home", lambda: home)
    jar = tmp_path / "spark.jar"
    jar.touch()
    monkeypatch.setattr(class_archive, "jar_paths", lambda _set: [jar])
    monkeypatch.setattr(class_archive, "ENGINE_FOLDER", folder)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    return folder


def engine_that_ends(monkeypatch: pytest.MonkeyPatch, *, writes: bool, well: bool = True) -> None:
    """Let the engine end at once, well or not, with or without writing the archive that its options name."""

    def end() -> bool:
        if writes:
            Path(os.environ["SPARK_SUBMIT_OPTS"].partition("AtExit=")[2].partition('"')[0]).touch()
        return well

    monkeypatch.setattr(class_archive, "_end_engine", end)


def test_an_engine_uses_an_archive_that_exists(folder: Path) -> None:
    assert archive_options() == ""
    archive_file().touch()
    assert archive_options().startswith(f'"-XX:SharedArchiveFile={folder}/classes-')
    assert " -Xshare:auto " in archive_options()


def test_another_java_or_another_jar_needs_another_archive(folder: Path) -> None:
    names = [archive_file()]
    (folder.parent / "java" / "release").write_text('JAVA_VERSION="17.0.2"')
    names.append(archive_file())
    os.utime(folder.parent / "spark.jar", (1, 1))
    names.append(archive_file())
    assert len(set(names)) == 3


@pytest.mark.parametrize(("writes", "well"), [(True, True), (False, True), (True, False)])
def test_the_archive_is_whole_or_missing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, writes: bool, well: bool
) -> None:
    engine_that_ends(monkeypatch, writes=writes, well=well)
    said: list[str] = []
    with archive_classes(said.append):
        assert os.environ["SPARK_SUBMIT_OPTS"].startswith('-Da=b "-XX:ArchiveClassesAtExit=')
        assert not archive_file().exists()
    assert list(folder.iterdir()) == ([archive_file()] if writes and well else [])
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"
    assert len(said) == 1


def test_an_archive_replaces_those_of_other_javas(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_that_ends(monkeypatch, writes=True)
    (folder / "classes-0.jsa").touch()
    with archive_classes(print):
        pass
    assert list(folder.iterdir()) == [archive_file()]


def test_an_engine_that_writes_an_archive_uses_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM refuses both options. A second demo may write its archive while this one starts."""
    engine_that_ends(monkeypatch, writes=False)
    with archive_classes(print):
        archive_file().touch()
        assert archive_options() == ""
    assert list(folder.iterdir()) == [archive_file()]


def test_an_archive_is_not_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_that_ends(monkeypatch, writes=True)
    archive_file().touch()
    with archive_classes(print):
        assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"
    assert list(folder.iterdir()) == [archive_file()]


def test_a_failed_run_writes_no_archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine_that_ends(monkeypatch, writes=True)
    with pytest.raises(KeyError), archive_classes(print):
        raise KeyError
    assert list(folder.iterdir()) == []
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"
