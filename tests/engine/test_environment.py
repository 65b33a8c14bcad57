"""The local engine is ours: what the environment says of another Spark, a server or a locale does not reach it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from sessionization_laptop.engine import environment
from sessionization_laptop.engine.environment import own_environment
from tests.support.job import ROOT

_PROBE = Path(__file__).with_name("engine_probe.py")
_SPARK = str(Path(pyspark.__file__).parent)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of this process, for a test to fill."""
    variables: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(environment, "java_home", lambda: Path("/java"))
    return variables


@pytest.mark.parametrize("name", ["SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_CONNECT_MODE_ENABLED", "PYSPARK_PYTHON"])
def test_a_variable_of_spark_that_somebody_has_set_is_left_out(given: dict[str, str], name: str) -> None:
    given.update({name: "theirs", "SPARK_HOME": "/nonexistent", "SPARK_LOCAL_DIRS": "/large", "HOME": "/home/me"})
    own_environment()
    assert "theirs" not in os.environ.values()
    assert (os.environ["SPARK_HOME"], os.environ["PYSPARK_PYTHON"]) == (_SPARK, sys.executable)
    assert (os.environ["SPARK_LOCAL_DIRS"], os.environ["HOME"]) == ("/large", "/home/me")


@pytest.mark.parametrize(("given_words", "expected"), [("", "pyspark-shell"), ("--conf 'a.b=1 2' pyspark-shell", None)])
def test_arguments_of_spark_get_the_last_word_that_they_lack(
    given: dict[str, str], given_words: str, expected: str | None
) -> None:
    given["PYSPARK_SUBMIT_ARGS"] = given_words
    own_environment()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == (expected or given_words)


def test_options_of_java_remain_where_the_engine_s_own_win(given: dict[str, str]) -> None:
    given.update({"_JAVA_OPTIONS": "-Xmx64m -Djavax.net.ssl.trustStore=t", "JAVA_TOOL_OPTIONS": "-Da=b"})
    own_environment()
    assert os.environ["JAVA_TOOL_OPTIONS"] == "-Xmx64m -Djavax.net.ssl.trustStore=t -Da=b"
    assert "_JAVA_OPTIONS" not in os.environ


def probe(folder: Path, *before: str, **variables: str) -> dict[str, object]:
    """Start an engine in a process of its own, and return what it is."""
    process = subprocess.run(
        [*before, sys.executable, str(_PROBE), str(folder)],
        env=os.environ | {"PYTHONPATH": str(ROOT / "lib"), **variables},
        stdout=subprocess.PIPE,
        check=True,
        timeout=600,
    )
    found: dict[str, object] = json.loads(process.stdout)
    return found


@pytest.mark.job
def test_an_engine_takes_nothing_of_who_starts_it(tmp_path: Path) -> None:
    settings = "spark.master spark://127.0.0.1:1\nspark.jars.packages com.example:nothing:1\nspark.driver.memory 1g\n"
    (tmp_path / "spark-defaults.conf").write_text(settings)
    found = probe(
        tmp_path,
        *("taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))),
        SPARK_HOME="/nonexistent",
        SPARK_REMOTE="sc://127.0.0.1:1",
        SPARK_CONF_DIR=str(tmp_path),
        PYSPARK_SUBMIT_ARGS="--conf spark.ui.enabled=false",
        JAVA_TOOL_OPTIONS="-Duser.language=ar -Duser.country=EG -XX:TieredStopAtLevel=1",
        _JAVA_OPTIONS="-Xmx64m",
    )
    assert found["master"] == "local[*]"
    assert found["log"] == ["00000000000000000000.json"]
    assert found["partitions"] == "1"
