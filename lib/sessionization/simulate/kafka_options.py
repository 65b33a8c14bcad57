"""Options of librdkafka as they are given on the command line; secrets come from the environment."""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from sessionization.errors import ConfigurationError

_FROM_ENVIRONMENT = "env:"
_SECRET_PARTS = ("password", "passphrase", "secret", "key.pem")
_SECRETS = frozenset({"sasl.oauthbearer.config"})
FIXED: Final[Mapping[str, str | bool]] = {
    "acks": "all",
    "delivery.report.only.error": True,
    "enable.idempotence": True,
    # What Java clients do, so that a device is in the same partition whoever sends.
    "partitioner": "murmur2_random",
}
"""What the promises of the sink rest on: order, no repeats, no loss in silence."""
_NOT_TO_BE_CHOSEN = frozenset({*FIXED, "request.required.acks", "logger", "opaque"})
_BROKERS = frozenset({"bootstrap.servers", "metadata.broker.list"})


def checked(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Let `name=value` and `name=env:NAME` through.

    Raises `ValueError` when one is not of that form, is given twice, is not to be chosen, or is a secret written out;
    the message never shows a value.
    """
    names = [text.partition("=")[0] for text in texts]
    for text, name in zip(texts, names, strict=True):
        value = text.partition("=")[2]
        msg = None
        if not name or not value or name != name.strip():
            msg = "is not of the form NAME=VALUE: write it as in security.protocol=SASL_SSL"
        elif value == _FROM_ENVIRONMENT:
            msg = f"{name} names no variable: write {name}=env:NAME"
        elif name in _BROKERS:
            msg = f"{name} is an option of its own: write --bootstrap-servers HOST:PORT"
        # With an underscore librdkafka names what only a program can give it.
        elif name in _NOT_TO_BE_CHOSEN or "_" in name:
            msg = f"{name} is not to be chosen here: leave it out"
        elif names.count(name) > 1:
            msg = f"{name} is given more than once: give it once"
        elif _is_secret(name) and not value.startswith(_FROM_ENVIRONMENT):
            msg = f"{name} is a secret, and others can read a command line: write {name}=env:NAME and set NAME"
        if msg:
            raise ValueError(msg)
    return texts


def resolved(texts: Sequence[str]) -> dict[str, str]:
    """The options by name, with what the environment holds.

    Raises `ConfigurationError` when a variable is not set.
    """
    options = {}
    for text in texts:
        name, _, value = text.partition("=")
        if value.startswith(_FROM_ENVIRONMENT):
            variable = value.removeprefix(_FROM_ENVIRONMENT)
            value = os.environ.get(variable, "")
            if not value:
                msg = f"--kafka-option {name}=env:{variable}: {variable} is not set: export it, and start again"
                raise ConfigurationError(msg)
        options[name] = value
    return options


def _is_secret(name: str) -> bool:
    return name in _SECRETS or any(part in name for part in _SECRET_PARTS)
