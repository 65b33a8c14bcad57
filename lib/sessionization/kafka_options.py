"""Options for a Kafka client as a person gives them: KEY=VALUE, with secrets by reference only."""

import os
from collections.abc import Callable, Iterable, Mapping

from sessionization.errors import ConfigurationError

_SECRET_PARTS = ("password", "secret", "jaas", "keystore.key", "key.pem", "oauthbearer.config")
_FROM_ENVIRONMENT = "env:"
_FROM_SCOPE = "secret:"


def parse_kafka_options(texts: Iterable[str]) -> dict[str, str]:
    """Options by name. A secret must be `env:NAME` or `secret:SCOPE/KEY`, so that no command line shows it.

    Raises `ValueError` with what to change; no message repeats a value.
    """
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or not value:
            msg = f"{name!r} is not KEY=VALUE: write it as in kafka.security.protocol=SASL_SSL"
            raise ValueError(msg)
        if name in options:
            msg = f"{name!r} is given more than once: give it once"
            raise ValueError(msg)
        if any(part in name for part in _SECRET_PARTS) and not value.startswith((_FROM_ENVIRONMENT, _FROM_SCOPE)):
            msg = (
                f"{name!r} would show a secret: give it by reference, as {_FROM_ENVIRONMENT}NAME of an environment "
                f"variable, or as {_FROM_SCOPE}SCOPE/KEY of a Databricks secret"
            )
            raise ValueError(msg)
        options[name] = value
    return options


def resolved(options: Mapping[str, str], secret: Callable[[str, str], str] | None) -> dict[str, str]:
    """The options with every reference replaced by what it refers to.

    Args:
        options: as `parse_kafka_options` returns them.
        secret: gives a secret by scope and key; None where there are no secret scopes.

    Raises `ConfigurationError` where a reference leads nowhere.
    """
    return {name: _value(name, value, secret) for name, value in options.items()}


def _value(name: str, value: str, secret: Callable[[str, str], str] | None) -> str:
    if value.startswith(_FROM_ENVIRONMENT):
        variable = value.removeprefix(_FROM_ENVIRONMENT)
        if not os.environ.get(variable):
            msg = f"--kafka-option {name}={value}: the environment variable {variable!r} is not set: export it"
            raise ConfigurationError(msg)
        return os.environ[variable]
    if value.startswith(_FROM_SCOPE):
        scope, _slash, key = value.removeprefix(_FROM_SCOPE).partition("/")
        if not scope or not key:
            msg = f"--kafka-option {name}={value} is not a reference: write {_FROM_SCOPE}SCOPE/KEY"
            raise ConfigurationError(msg)
        if secret is None:
            msg = (
                f"--kafka-option {name}={value}: secret scopes are on Databricks only: "
                f"export an environment variable and write {_FROM_ENVIRONMENT}NAME"
            )
            raise ConfigurationError(msg)
        return secret(scope, key)
    return value
