"""Kafka settings: the client's options, secrets only by reference, and a topic's name."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

from pydantic import BeforeValidator

from sessionization.errors import ConfigurationError

OUTPUT_TOPIC = "output_sessions"
"""The default topic of the changes."""
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SECRET_PARTS = ("password", "passphrase", "secret", "jaas", "keystore.key", "key.pem", "oauthbearer.config")
_FROM_ENVIRONMENT = "env:"
SCOPE_PREFIX = "secret:"

_JAAS = "jaas"
_JAAS_OPTION = r"""\s+([\w.]+)\s*=\s*(?:"[^"\\]*"|[^\s"';=\\]+)"""
_JAAS_LINE = re.compile(rf"[\w.$]+\s+(?:required|requisite|sufficient|optional)((?:{_JAAS_OPTION})*)\s*;")
_SECRET_JAAS_OPTION = re.compile(r"pass|pwd|secret|token|key|credential|assertion", re.IGNORECASE)
"""Login modules may have options of their own, so a harmless name such as `keyTab` also counts as a secret."""

SERVICE_CREDENTIAL = "databricks.serviceCredential"
_SOURCE_OPTIONS = (
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "minPartitions",
    # Only Databricks' Kafka source has these.
    SERVICE_CREDENTIAL,
    "databricks.serviceCredential.scope",
    "maxPartitions",
)
_SET_BY_THE_JOB = {
    "kafka.bootstrap.servers",
    "kafka.auto.offset.reset",
    "kafka.enable.auto.commit",
    "kafka.group.id",
    "kafka.interceptor.classes",
    "kafka.key.deserializer",
    "kafka.value.deserializer",
}


def parse_kafka_options(texts: Iterable[str]) -> dict[str, str]:
    """Return the options by name. A secret must be `env:NAME` or `secret:SCOPE/KEY`, so that no command line shows it.

    Raises `ValueError` with the correction to make; no message repeats a value.
    """
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or not value:
            msg = "is not KEY=VALUE: write it as in kafka.security.protocol=SASL_SSL"
        elif name in options:
            msg = f"{name} is given more than once: give it once"
        elif value in {_FROM_ENVIRONMENT, SCOPE_PREFIX}:
            msg = f"{name} refers to nothing: write {name}={_FROM_ENVIRONMENT}NAME or {name}={SCOPE_PREFIX}SCOPE/KEY"
        elif _is_plain_secret(name.lower(), value):
            msg = (
                f"{name} is a secret, and others can read a command line: write {name}={_FROM_ENVIRONMENT}NAME of an "
                f"environment variable, or {name}={SCOPE_PREFIX}SCOPE/KEY of a Databricks secret"
            )
        else:
            options[name] = value
            continue
        raise ValueError(msg)
    return options


def _is_plain_secret(name: str, value: str) -> bool:
    if value.startswith((_FROM_ENVIRONMENT, SCOPE_PREFIX)) or not any(part in name for part in _SECRET_PARTS):
        return False
    return not (_JAAS in name and _is_jaas_line_without_secret(value))


def _is_jaas_line_without_secret(text: str) -> bool:
    """Whether the text is a login module with options that are no secrets, as for IAM; in doubt it is not."""
    line = _JAAS_LINE.fullmatch(text)
    return line is not None and not any(
        _SECRET_JAAS_OPTION.search(option) for option in re.findall(_JAAS_OPTION, line[1])
    )


def check_client_options(given: object) -> dict[str, str]:
    """Return the options by name, from a file's mapping or from texts `KEY=VALUE`.

    Raises `ValueError` for a text that is no option, or for an option that may not be set here.
    """
    if not isinstance(given, Mapping | list | tuple):
        msg = "is no mapping: write each option as KEY: VALUE below it"
        raise ValueError(msg)  # noqa: TRY004 - pydantic reports this one
    texts = [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else given
    options = parse_kafka_options(map(str, texts))
    for name in options:
        if name.lower() in _SET_BY_THE_JOB:
            msg = f"{name} is set by the job (the brokers by --bootstrap-servers): leave it out"
            raise ValueError(msg)
        if not name.startswith("kafka.") and name not in _SOURCE_OPTIONS:
            msg = (
                f"{name} is unknown: write an option of the Kafka client with 'kafka.' before it, or one of "
                f"{', '.join(_SOURCE_OPTIONS)}"
            )
            raise ValueError(msg)
    return options


KafkaOptions = Annotated[dict[str, str], BeforeValidator(check_client_options)]
"""A pydantic field of the client's options by name; references to secrets are not resolved."""


def uses_service_credential(options: Mapping[str, str]) -> bool:
    """Whether Databricks signs in to the brokers; then no client but Spark's own gets in."""
    return SERVICE_CREDENTIAL in options


def check_output_topic(name: str) -> str:
    """Return `name`; raises `ValueError` for a name that no topic can have."""
    if _TOPIC.fullmatch(name) is None or name in {".", ".."}:
        msg = f"{name!r} is no topic's name: write at most 249 of the characters a-z, A-Z, 0-9, '.', '_' and '-'"
        raise ValueError(msg)
    return name


def resolve_secrets(
    options: Mapping[str, str], secret: Callable[[str, str], str] | None, place: str = "--kafka-option "
) -> dict[str, str]:
    """Return the options with every reference replaced by its value.

    Args:
        options: as `parse_kafka_options` returns them.
        secret: returns a secret by scope and key; None where there are no secret scopes.
        place: what an error writes before the name of an option.

    Raises `ConfigurationError` where a reference cannot be resolved.
    """
    return {name: _resolve(f"{place}{name}", name, value, secret) for name, value in options.items()}


def _resolve(place: str, name: str, value: str, secret: Callable[[str, str], str] | None) -> str:
    if value.startswith(_FROM_ENVIRONMENT):
        variable = value.removeprefix(_FROM_ENVIRONMENT)
        if not os.environ.get(variable):
            msg = f"{place}: {variable} is not set: export it, and start again"
            raise ConfigurationError(msg)
        return os.environ[variable]
    if value.startswith(SCOPE_PREFIX):
        scope, _slash, key = value.removeprefix(SCOPE_PREFIX).partition("/")
        if not scope or not key:
            msg = f"{place} is not a reference: write {name}={SCOPE_PREFIX}SCOPE/KEY"
            raise ConfigurationError(msg)
        if secret is None:
            msg = (
                f"{place}: secret scopes are on Databricks only: "
                f"export an environment variable and write {_FROM_ENVIRONMENT}NAME"
            )
            raise ConfigurationError(msg)
        return secret(scope, key)
    return value
