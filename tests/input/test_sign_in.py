"""What the start says where the brokers do not let the job in: one line each, without the secret."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sessionization.errors import ConfigurationError
from sessionization.settings.sessionize_settings import SessionizeSettings
from sessionization.spark.input import kafka_source
from tests.support.certificates import pem_authority
from tests.support.secured_broker import SecuredBroker, jaas, secured_broker
from tests.support.settings import settings_of

pytestmark = pytest.mark.spark

SECRET = "not-the-one"
REFUSED = "does not let this job read pc_sessions ("
NO_LINE = "cannot be signed in to: kafka.sasl.jaas.config is missing, is no JAAS line"
Check = Callable[[dict[str, str], str], str | None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def check(spark: SparkSession, broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch) -> Check:
    """Looks up a topic with options of a client and a JAAS line, and returns what is said instead, or None."""

    def check(options: dict[str, str], line: str) -> str | None:
        monkeypatch.setenv("STUDIO_JAAS", line)
        settings = settings_of(
            SessionizeSettings,
            {
                "source": "kafka",
                "bootstrap_servers": broker.bootstrap_servers,
                "kafka_option": [f"{name}={value}" for name, value in options.items()],
                "warehouse": Path("w"),
                "checkpoints": Path("c"),
            },
        )
        said = None
        try:
            kafka_source.check_topics(spark, settings, ("pc_sessions",))
        except ConfigurationError as error:
            said = str(error).removeprefix(f"--bootstrap-servers {broker.bootstrap_servers} ")
        assert SECRET not in str(said)
        assert "\n" not in str(said)
        return said

    return check


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_the_right_secret_opens_and_a_wrong_one_is_named(broker: SecuredBroker, check: Check, mechanism: str) -> None:
    options = broker.client_options(mechanism)
    assert check(options, jaas(mechanism)) is None
    assert str(check(options, jaas(mechanism, SECRET))).startswith(REFUSED)


@pytest.mark.long  # the client tries again for ten seconds
def test_an_expired_token_is_refused(broker: SecuredBroker, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker.tokens, "lifetime_s", -60)
    own_line = f"{jaas('OAUTHBEARER')} "  # Kafka's client keeps the token of a line that another test gave
    assert str(check(broker.client_options("OAUTHBEARER"), own_line)).startswith(REFUSED)


def test_an_unknown_authority_is_not_trusted(broker: SecuredBroker, check: Check, tmp_path: Path) -> None:
    other, _ = pem_authority(tmp_path, "other")
    assert str(check(broker.client_options("PLAIN", other), jaas("PLAIN"))).startswith(REFUSED)


@pytest.mark.parametrize("line", [SECRET, f"a {SECRET}", f'org.nowhere.LoginModule required password="{SECRET}";'])
def test_a_line_that_signs_nobody_in_is_refused_without_its_words(
    broker: SecuredBroker, check: Check, line: str
) -> None:
    assert str(check(broker.client_options("PLAIN"), line)).startswith(NO_LINE)
