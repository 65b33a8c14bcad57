"""The options of the load generator: the load that they make, and the combinations that are refused."""

from pathlib import Path
from typing import Any

import pytest

from sessionization.command_line.parser import parse_settings
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.simulate_settings import MAX, REAL_TIME, LoadPlan, SimulateSettings

KAFKA = "--sink kafka --bootstrap-servers h:9092"


def plan(**options: Any) -> LoadPlan:
    return SimulateSettings.model_validate({"output": "out", **options}).plan()


def test_without_a_load_a_third_of_the_devices_plays() -> None:
    default = plan()
    assert (default.devices, default.duration_ms, default.holds_live) == (10_000, 600_000, False)
    assert default.live == pytest.approx(3_333, abs=1)
    assert plan(devices=90).live == 30


@pytest.mark.parametrize(
    ("options", "rate", "live", "length_ms"),
    [
        ({"rate": 100, "session_length": "60s"}, 100, 3_000, 60_000),
        ({"live": 3_000, "session_length": "60s"}, 100, 3_000, 60_000),
        ({"live": 3_000, "rate": 100}, 100, 3_000, 60_000),
        ({"live": 1_000_000, "rate": 1_000}, 1_000, 1_000_000, 2_000_000),
    ],
)
def test_two_of_rate_live_and_length_determine_the_third(
    options: dict[str, Any], rate: float, live: float, length_ms: float
) -> None:
    load = plan(**options)
    assert (load.rate, load.live, load.session_length_ms) == pytest.approx((rate, live, length_ms))
    assert load.holds_live == ("live" in options)


@pytest.mark.parametrize(
    ("options", "length_ms"),
    [({}, 150_000), ({"duration": "2m"}, 30_000), ({"duration": "12h"}, 45 * 60_000), ({"duration": "1s"}, 1_000)],
)
def test_sessions_are_short_in_a_short_evening(options: dict[str, Any], length_ms: int) -> None:
    assert plan(rate=1, **options).session_length_ms == length_ms


def test_there_are_enough_devices() -> None:
    for options in ({"live": 1}, {"live": 5_000}, {"rate": 0.01}, {"rate": 1_000, "duration": "1m"}):
        load = plan(**options)
        assert load.devices >= max(load.live, 10)


def test_events_without_a_duration_determine_it() -> None:
    assert 100_000 < plan(rate=100, events=10_000, dirt=0).duration_ms < 130_000
    assert 2_000 <= plan(live=100_000, events=10_000).duration_ms < 3_000


@pytest.mark.parametrize(
    ("text", "pace"), [("real-time", REAL_TIME), ("max", MAX), ("60x", 60), ("0.5x", 0.5), ("1x", REAL_TIME)]
)
def test_a_pace_is_a_name_or_a_factor(text: str, pace: float) -> None:
    assert parse_settings(SimulateSettings, ["--output=o", "--pace", text], "simulate").pace == pace


def test_kinds_of_dirt_are_separated_by_commas() -> None:
    settings = parse_settings(SimulateSettings, ["--output=o", "--dirt-kinds", "repeat,late_end"], "simulate")
    assert settings.dirt_kinds == (DirtKind.REPEAT, DirtKind.LATE_END)
    assert settings.output == Path("o")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("", "--sink files needs --output"),
        ("--sink kafka", "--sink kafka needs --bootstrap-servers"),
        (f"{KAFKA} --output=o", "--sink kafka needs --bootstrap-servers HOST:PORT, and takes no --output"),
        ("--output=o --bootstrap-servers h:9092", "--sink files needs --output DIR, and takes no --bootstrap-servers"),
        ("--output=o --kafka-option debug=all", "--sink files needs --output DIR, and takes no --bootstrap-servers"),
        (f"{KAFKA} --kafka-option acks=0", "--kafka-option acks is set by the simulator: leave it out"),
        (f"{KAFKA} --kafka-option sasl.password=hidden", "--kafka-option sasl.password is a secret"),
        ("--output=o --pace fast", "--pace 'fast' is not a pace: write real-time, max, or a factor such as 60x"),
        ("--output=o --past 1h", "--past 1h must be less than the duration, 10m"),
        ("--output=o --past 5m --pace max", "--past 5m needs --pace real-time: leave out one of them"),
        ("--output=o --dirt-kinds repeat,dust", "--dirt-kinds 'dust' is not known: write 'repeat', 'late_end'"),
        (
            "--output=o --devices 9 --live 10",
            "--devices 9 are too few for 10 live sessions: write at least 10, or a smaller load",
        ),
        (
            "--output=o --rate 10000000",
            "1200000000 live sessions need 2250000000 devices, at most 50000000 are possible",
        ),
        (
            "--output=o --live 100 --rate 10 --session-length 45m",
            "--live 100 at --rate 10 makes sessions of 20s on average: leave out --session-length 45m, or one of",
        ),
        (
            "--output=o --live 100 --rate 1000",
            "--live 100 at --rate 1000 makes sessions of 0.2s on average, too short: write a --rate of at most 200",
        ),
    ],
)
def test_impossible_options_are_one_line_and_exit_code_2(
    argv: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        parse_settings(SimulateSettings, argv.split(), "simulate")
    assert exited.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"simulate: {line}")
    assert "hidden" not in errors
    assert errors.count("\n") == 1
