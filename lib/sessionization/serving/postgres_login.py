"""Connects to Postgres: the parameters of libpq, and a password or token by reference."""

from collections.abc import Callable, Mapping
from functools import partial
from pkgutil import resolve_name
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from sessionization.errors import ConfigurationError
from sessionization.settings.kafka_options import resolve_secrets

_CALL = "call:"
_ALWAYS: Mapping[str, Any] = {
    "connect_timeout": 10,
    # A connection that a firewall or a failover has cut silently ends within a minute.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "target_session_attrs": "read-write",  # of several hosts the one that is no standby
    "application_name": "serve_sessions",
}
_ENCRYPTED: Mapping[str, Any] = {"sslmode": "verify-full", "sslrootcert": "system"}
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
"""Without a host libpq takes PGHOST or a service file's, else a socket, for which it passes over `sslmode`."""

Login = Callable[[], psycopg.Connection[Any]]
"""Connects anew; raises `psycopg.Error`."""


def login(conninfo: str, password: str | None, secret: Callable[[str, str], str] | None) -> Login:
    """Return what connects to a database.

    Args:
        conninfo: as libpq writes it (keywords or a URI), without a password.
        password: `env:NAME`, `secret:SCOPE/KEY`, or `call:MODULE:FUNCTION`; the function gets the parameters of the
            connection by name, and returns a password, or a token that may expire, for each connection.
        secret: returns a secret of Databricks by scope and key; None where there are no secret scopes.

    Raises `ConfigurationError` for what cannot be used; no message repeats a value of a secret.
    """
    try:
        given = conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:  # its text may repeat a password
        msg = "--postgres cannot be read: write it as in 'host=db.example dbname=games user=me', without a password"
        raise ConfigurationError(msg) from None
    if "password" in given:
        msg = (
            "--postgres has a password, and others can read a command line: leave it out, and give --password env:NAME"
        )
        raise ConfigurationError(msg)
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    is_near = all(host in _THIS_MACHINE or host.startswith("/") for host in hosts)
    parameters = {**_ALWAYS, **({} if is_near or "sslmode" in given else _ENCRYPTED), **given}
    current_password = _password_source(password, parameters, secret)

    def connect() -> psycopg.Connection[Any]:
        return psycopg.connect("", autocommit=True, **parameters, **current_password())

    return connect


def _password_source(
    reference: str | None, parameters: Mapping[str, Any], secret: Callable[[str, str], str] | None
) -> Callable[[], dict[str, Any]]:
    if reference is None:
        return dict
    if reference.startswith(_CALL):
        return partial(_called, reference, _function(reference), parameters)
    if not reference.startswith(("env:", "secret:")):
        msg = "--password is no reference: write env:NAME, secret:SCOPE/KEY or call:MODULE:FUNCTION"
        raise ConfigurationError(msg)
    resolved = resolve_secrets({"password": reference}, secret, place="--")
    return lambda: resolved


def _function(reference: str) -> Any:
    try:
        function = resolve_name(reference.removeprefix(_CALL))
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"--password {reference} cannot be imported ({error}): write call:MODULE:FUNCTION, and put it on the path"
        raise ConfigurationError(msg) from error
    if not callable(function):
        msg = f"--password {reference} names no function: write call:MODULE:FUNCTION"
        raise ConfigurationError(msg)
    return function


def _called(
    reference: str, function: Callable[[Mapping[str, Any]], object], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        return {"password": str(function(parameters))}
    except Exception as error:  # as an outage of what gives the tokens: the connection is tried again
        msg = f"--password {reference} gave none: {error or type(error).__name__}"
        raise psycopg.OperationalError(msg) from error
