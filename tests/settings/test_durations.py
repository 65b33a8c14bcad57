"""Durations as text: reading and writing."""

import re

import pytest
from pydantic import BaseModel, ValidationError

from sessionization.durations import Duration, PaceRange, format_duration, parse_duration_ms


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
