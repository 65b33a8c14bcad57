"""Another PySpark on `PYTHONPATH` is named, and not half used."""

import os
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from sessionization.command_line.other_pyspark import refuse_other_pyspark
from sessionization.command_line.parser import run


@pytest.fixture
def no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "DATABRICKS_RUNTIME_VERSION"):
        monkeypatch.delenv(name, raising=False)


def put_before(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Let `PYTHONPATH` name a folder, as a start of Python with it does."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("", str(path))))
    monkeypatch.setattr(sys, "path", [str(path), *sys.path])


def distribution(folder: Path) -> Path:
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").touch()
    return folder


@pytest.mark.usefixtures("no_caller")
def test_a_job_names_the_pyspark_of_another_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = distribution(tmp_path / "spark-3.5" / "python")
    put_before(monkeypatch, other)
    with pytest.raises(SystemExit) as ended:
        run(lambda: 0, "prog")
    assert ended.value.code == 2
    assert capsys.readouterr().err == (
        f"prog: PYTHONPATH has another pyspark ({other}/pyspark/__init__.py), not ours: unset PYTHONPATH\n"
    )


@pytest.mark.usefixtures("no_caller")
def test_a_py4j_in_an_archive_is_one_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tmp_path / "py4j-0.10.9.7-src.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("py4j/__init__.py", "")
    put_before(monkeypatch, archive)
    with pytest.raises(Exception, match=r"another py4j \(.*-src\.zip/py4j/__init__\.py\)"):
        refuse_other_pyspark()


@pytest.mark.usefixtures("no_caller")
def test_the_environment_s_own_is_not_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_before(monkeypatch, Path(pyspark.__file__).parents[1])
    refuse_other_pyspark()
    put_before(monkeypatch, tmp_path)
    refuse_other_pyspark()


def test_under_spark_submit_it_is_the_caller_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_before(monkeypatch, distribution(tmp_path))
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    refuse_other_pyspark()
