"""The archive of classes is used where there is one for this Java and these jars."""

import os
from pathlib import Path

import pytest

from sessionization_laptop.engine import class_archive
from sessionization_laptop.engine.class_archive import archive_file, archive_options


def test_an_archive_is_used_with_the_java_and_the_jars_that_it_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, jar = tmp_path / "release", tmp_path / "spark.jar"
    release.write_text('JAVA_VERSION="17.0.1"')
    jar.touch()
    monkeypatch.setattr(class_archive, "java_home", lambda: tmp_path)
    monkeypatch.setattr(class_archive, "jar_paths", lambda _set: [jar])
    monkeypatch.setattr(class_archive, "ENGINE_FOLDER", tmp_path)
    assert archive_options() == ""
    archive_file().touch()
    assert archive_options().startswith(f'"-XX:SharedArchiveFile={tmp_path}/classes-')
    release.write_text('JAVA_VERSION="17.0.2"')
    assert archive_options() == ""
    archive_file().touch()
    os.utime(jar, (1, 1))
    assert archive_options() == ""
