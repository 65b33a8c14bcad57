"""The options of the load generator: the load that they make, and the combinations that are refused."""

from typing import Any

import pytest

from sessionization_simulator.dirt import DirtKind
from sessionization_simulator.evening import LoadPlan
from sessionization_simulator.simulate_settings import SimulateSettings
from tests.support.command_line import parse


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
        ({"live": 1_000_000, "rate": 1_000}, 1_000, 1_000_000, 2_000_000),
        ({"rate": 1, "duration": "2m"}, 1, 15, 30_000),
        ({"rate": 1, "duration": "12h"}, 1, 1_350, 45 * 60_000),
    ],
)
def test_two_of_rate_live_and_length_determine_the_third_and_there_are_enough_devices(
    options: dict[str, Any], rate: float, live: float, length_ms: float
) -> None:
    load = plan(**options)
    assert (load.rate, load.live, load.session_length_ms) == pytest.approx((rate, live, length_ms))
    assert load.holds_live == ("live" in options)
    assert load.devices >= load.live


def test_a_pace_is_a_name_or_a_factor_and_kinds_of_dirt_are_separated_by_commas() -> None:
    options = ["--output=o", "--pace=0.5x", "--dirt-kinds=repeat,late_end"]
    settings = parse(SimulateSettings, options, "simulate")
    assert (settings.speed, settings.dirt_kinds) == (0.5, (DirtKind.REPEAT, DirtKind.LATE_END))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("", "--sink files needs --output"),
        ("--sink kafka --bootstrap-servers h:9092 --output=o", "--sink kafka needs --bootstrap-servers HOST:PORT, and"),
        ("--output=o --kafka-option debug=all", "--sink files needs --output DIR, and takes no --bootstrap-servers"),
        ("--output=o --kafka-option sasl.password=hidden", "--kafka-option sasl.password is a secret"),
        ("--output=o --pace fast", "--pace 'fast' does not fit"),
        ("--output=o --past 1h", "--past 1h needs --pace real-time, and a longer --duration"),
        ("--output=o --past 5m --pace max", "--past 5m needs --pace real-time, and a longer --duration"),
        ("--output=o --dirt-kinds repeat,dust", "--dirt-kinds 'dust' is not known: write 'repeat', 'late_end'"),
        ("--output=o --ping 1m", "--ping: the map --events default has no kinds.activity: name another map, or leave"),
        ("--output=o --dirt-kinds crash", "--dirt-kinds crash happens to pings: add --ping, or leave it out"),
        ("--output=o --ping 1m --events unity --dirt-kinds negative_foreground", "--dirt-kinds negative_foreground ca"),
        ("--output=o --devices 9 --live 10", "--devices 9 are too few for 10 live sessions: write at least 10"),
        ("--output=o --live 9 --rate 10 --session-length 45m", "--rate, --live and --session-length are too many"),
    ],
)
def test_impossible_options_are_one_line_and_exit_code_2(
    argv: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        parse(SimulateSettings, argv.split(), "simulate")
    assert exited.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith(f"simulate: {line}")
    assert "hidden" not in errors
    assert errors.count("\n") == 1
