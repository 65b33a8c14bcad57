"""Durations, ranges of them, and locations as text: reading and writing; a mistake in one is named at once."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from sessionization.command_line.parser import read_settings
from sessionization.durations import Duration, PaceRange, format_duration, parse_duration_ms
from sessionization.errors import ConfigurationError
from sessionization.hadoop_path import AnyPath, HadoopPath, parse_location, path_of_uri
from sessionization.players.players_settings import PlayersSettings
from sessionization.settings.sessionize_settings import SessionizeSettings
from tests.support.settings import settings_of


class Beat(BaseModel):
    every: Duration


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500), ("30s", 30_000), ("30m", 1_800_000), ("12h", 43_200_000), ("7d", 604_800_000), ("0s", 0),
        ("90s", 90_000), ("1001ms", 1_001), ("36500d", 3_153_600_000_000),
    ],
)  # fmt: skip
def test_every_unit_is_read_and_written_back(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms
    assert format_duration(duration_ms) == text


@pytest.mark.parametrize(
    "text",
    ["abc", "", "30", "s", "30 s", " 30s", "30s\n", "1.5s", "-5s", "+5s", "30S", "30sec", "1h30m", "\u0661s", "9e9s"],
)
def test_other_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is not a duration: write a number and")):
        parse_duration_ms(text)


def test_a_duration_is_at_most_a_hundred_years() -> None:
    with pytest.raises(ValueError, match="'36501d' is too long a duration: write at most 36500d"):
        parse_duration_ms("36501d")


def test_a_field_takes_text_or_milliseconds_and_is_dumped_as_text() -> None:
    assert Beat.model_validate({"every": "30s"}).every == 30_000
    assert Beat(every=30_000).model_dump() == {"every": "30s"}
    with pytest.raises(ValidationError, match="'abc' is not a duration"):
        Beat.model_validate({"every": "abc"})


class Paced(BaseModel):
    every: PaceRange


@pytest.mark.parametrize(
    ("text", "expected", "written"),
    [("5s-1m", (5_000, 60_000), "5s-1m"), ("30s", (30_000, 30_000), "30s"), ("1m-60s", (60_000, 60_000), "1m")],
)
def test_a_range_is_read_and_written_back(text: str, expected: tuple[int, int], written: str) -> None:
    paced = Paced.model_validate({"every": text})
    assert paced.every == expected
    assert paced.model_dump() == {"every": written}


@pytest.mark.parametrize("text", ["1m-5s", "0s", "0s-5s", "5s-", "-5s", "5s-1m-2m", "soon"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"is not a (range of durations|duration): write "):
        Paced.model_validate({"every": text})


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("data", Path("data")),
        ("/data", Path("/data")),
        ("/Volumes/a/b/c", Path("/Volumes/a/b/c")),
        ("file:/data", Path("/data")),
        ("file:///my%20data%23", Path("/my data#")),
        ("/my%20data#", Path("/my%20data#")),
        ("dbfs:/Volumes/a/b/c", Path("/Volumes/a/b/c")),
        ("with:colon", Path("with:colon")),
        ("hdfs://name:9000/data", HadoopPath("hdfs://name:9000/data")),
        ("hdfs:///data/", HadoopPath("hdfs:///data")),
        ("s3a://bucket/a b/c", HadoopPath("s3a://bucket/a b/c")),
        (
            "abfss://container@account.dfs.core.windows.net/x",
            HadoopPath("abfss://container@account.dfs.core.windows.net/x"),
        ),
    ],
)
def test_a_path_or_a_uri_is_read(text: str, location: AnyPath) -> None:
    assert parse_location(text) == location
    assert parse_location(location) is location


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("file://data/x", "is not a location: write a path, or a URI"),
        ("file:///data/run#2", "is not a location"),
        ("dbfs:/tmp/x", "is not supported: give a folder of a volume"),
        ("s3a:/bucket/x", "is not a location"),
        ("s3a://bucket", "is not a location"),
        ("hdfs:///", "is not a location"),
        ("s3a://key:secret@bucket/x", "holds a password: put it into Spark's settings"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(text: str, said: str) -> None:
    arguments = ["--input", "in", "--warehouse", text, "--checkpoints", "c"]
    with pytest.raises(ConfigurationError, match=re.escape(said)) as raised:
        read_settings(SessionizeSettings, arguments)
    assert str(raised.value).startswith("--warehouse '")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("text", ["s3://bucket/x", "abfss://c@a.dfs.core.windows.net/x", "hdfs://name/x", "dbfs:/x"])
def test_databricks_takes_no_uri_but_a_volumes(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    with pytest.raises(ValueError, match=r"^'.*' is not supported: give a folder of a volume"):
        parse_location(text)
    assert parse_location("dbfs:/Volumes/a/b/c") == Path("/Volumes/a/b/c")
    assert parse_location("/Volumes/a/b/c") == Path("/Volumes/a/b/c")


@pytest.mark.parametrize(
    ("uri", "location"),
    [
        ("file:///in/a%20b.json", Path("/in/a b.json")),
        ("/in/a.json", Path("/in/a.json")),
        ("hdfs://name:9000/in/a%20b.json", HadoopPath("hdfs://name:9000/in/a b.json")),
    ],
)
def test_a_uri_of_sparks_logs_becomes_the_path_of_its_file(uri: str, location: AnyPath) -> None:
    assert path_of_uri(uri) == location


def test_the_settings_of_a_job_are_written_as_text() -> None:
    arguments = ["--input", "hdfs://name/in", "--warehouse", "s3a://bucket/tables", "--checkpoints", "c"]
    dumped = read_settings(SessionizeSettings, arguments).model_dump(mode="json")
    assert (dumped["source"]["input"], dumped["tables"]["warehouse"], dumped["state"]["checkpoints"]) == (
        "hdfs://name/in",
        "s3a://bucket/tables",
        "c",
    )


@pytest.mark.parametrize(
    "zone", ["", "+02:00", "nonsense", "Europe", "europe/berlin", "right/UTC", "posix/UTC", "../UTC"]
)
def test_a_time_zone_is_one_that_the_engine_knows_too(zone: str) -> None:
    with pytest.raises(ValidationError, match="is no time zone: give a name of the IANA database"):
        settings_of(PlayersSettings, warehouse="tables", time_zone=zone)
