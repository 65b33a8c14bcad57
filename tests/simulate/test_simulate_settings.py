"""The options of the load generator: the load that they make, and the combinations that are refused."""

from pathlib import Path
from typing import Any

import pytest

from sessionization.command_line.parser import parse_settings
from sessionization.errors import ConfigurationError
from sessionization.settings.kafka_options import resolve_secrets
from sessionization_simulator.dirt_kinds import DirtKind
from sessionization_simulator.load_plan import LoadPlan
from sessionization_simulator.pace import MAX, REAL_TIME
from sessionization_simulator.simulate_settings import SimulateSettings

KAFKA = "--sink kafka --bootstrap-servers h:9092"
SECRETS = (
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
)


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
        ("", "--sink files needs --output: name the folder, as in --output events"),
        (
            "--sink kafka",
            "--sink kafka needs --bootstrap-servers: name the brokers, as in --bootstrap-servers 127.0.0.1:9092",
        ),
        (f"{KAFKA} --output=o", "--sink kafka takes no --output: leave it out, or write --sink files"),
        (
            "--output=o --bootstrap-servers h:9092",
            "--sink files takes no --bootstrap-servers: leave it out, or write --sink kafka",
        ),
        (
            "--output=o --kafka-option debug=all",
            "--sink files takes no --kafka-option: leave it out, or write --sink kafka",
        ),
        (f"{KAFKA} --kafka-option hidden", "--kafka-option is not KEY=VALUE: write it as in"),
        (f"{KAFKA} --kafka-option debug=env:", "--kafka-option debug refers to nothing: write debug=env:NAME"),
        (f"{KAFKA} --kafka-option acks=0", "--kafka-option acks is not to be chosen here: leave it out"),
        (f"{KAFKA} --kafka-option error_cb=hidden", "--kafka-option error_cb is not to be chosen here"),
        (f"{KAFKA} --kafka-option bootstrap.servers=h:1", "--kafka-option bootstrap.servers is an option of its own"),
        (
            f"{KAFKA} --kafka-option sasl.password=secret:a/b",
            "--kafka-option sasl.password: the simulator reads no secret scopes",
        ),
        *(
            (
                f"{KAFKA} --kafka-option {name}=hidden",
                f"--kafka-option {name} is a secret, and others can read a command line: write {name}=env:NAME",
            )
            for name in SECRETS
        ),
        ("--output=o --pace fast", "--pace 'fast' is not a pace: write real-time, max, or a factor such as 60x"),
        ("--output=o --pace -1x", "--pace '-1x' is not a pace"),
        ("--output=o --past 1h", "--past 1h must be less than the duration, 10m"),
        ("--output=o --past 5m --pace max", "--past 5m needs --pace real-time: leave out one of them"),
        ("--output=o --rate 0", "--rate '0' does not fit: input should be greater than 0"),
        ("--output=o --duration 99ms", "--duration '99ms' is too small: write at least 100ms"),
        ("--output=o --dirt 1.1", "--dirt '1.1' does not fit"),
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
        (
            "--output=o --events 5 --dirt 1 --dirt-kinds lost_start,lost_end",
            "--events 5 are never reached: with --dirt 1 every message gets lost",
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


def test_kafka_options_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = "--kafka-option security.protocol=SASL_SSL --kafka-option sasl.password=env:GAMES_PASSWORD"
    settings = parse_settings(SimulateSettings, f"{KAFKA} {given}".split(), "simulate")
    assert (settings.sink, settings.bootstrap_servers) == ("kafka", "h:9092")
    assert settings.kafka_option == ("security.protocol=SASL_SSL", "sasl.password=env:GAMES_PASSWORD")
    monkeypatch.setenv("GAMES_PASSWORD", "a=b c")
    assert resolve_secrets(settings.kafka_options, None) == {"security.protocol": "SASL_SSL", "sasl.password": "a=b c"}
    for unset in (lambda: monkeypatch.setenv("GAMES_PASSWORD", ""), lambda: monkeypatch.delenv("GAMES_PASSWORD")):
        unset()
        with pytest.raises(ConfigurationError, match="GAMES_PASSWORD is not set: export it"):
            resolve_secrets(settings.kafka_options, None)
