"""A broker behind TLS with its own certificate authority, for users with a password, SCRAM or a token."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from sessionization_laptop.broker import Broker
from tests.support.certificates import pem_authority
from tests.support.default_streams import STREAMS

KAFKA = "org.apache.kafka.common.security"
PASSWORD, CLIENT_SECRET = "correct-horse-battery", "staple-of-the-client"
_ADMIN_PASSWORD = "the-brokers-own"
_AUDIENCE = "games"


@dataclass
class TokenEndpoint:
    """Gives signed tokens to the client `studio` with `CLIENT_SECRET`, and shows its public key to the broker.

    The next tokens are valid for `lifetime_s`, which may be negative. `given` are the tokens so far.
    """

    lifetime_s: int = 3_600
    given: list[str] = field(default_factory=list)
    _key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65_537, 2_048))
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[None]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                numbers = endpoint._key.public_key().public_numbers()
                n, e = (_base64(number.to_bytes((number.bit_length() + 7) // 8)) for number in (numbers.n, numbers.e))
                self._answer(200, {"keys": [{"kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": n, "e": e}]})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                expected = base64.b64encode(f"studio:{CLIENT_SECRET}".encode()).decode()
                if self.headers["Authorization"] != f"Basic {expected}":
                    return self._answer(401, {"error": "invalid_client", "error_description": "unknown secret"})
                return self._answer(200, {"access_token": endpoint._token(), "token_type": "bearer"})

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
                """Print nothing."""

            def _answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as self._server:
            threading.Thread(target=self._server.serve_forever, daemon=True).start()
            try:
                yield
            finally:
                self._server.shutdown()

    def _token(self) -> str:
        expires_s = int(time.time()) + self.lifetime_s
        claims = {"sub": "studio", "aud": _AUDIENCE, "scope": "kafka", "iat": expires_s - 3_600, "exp": expires_s}
        text = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        token = f"{text}.{_base64(self._key.sign(text.encode(), padding.PKCS1v15(), SHA256()))}"
        self.given.append(token)
        return token


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


@dataclass(frozen=True)
class SecuredBroker:
    """The broker, with what its clients need."""

    broker: Broker
    authority: Path
    tokens: TokenEndpoint
    mechanisms: ClassVar = ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER")

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    def start(self) -> None:
        """Start the broker, or start it again after `broker.kill()`."""
        with pytest.MonkeyPatch.context() as patch:
            url = f"{self.tokens.url}/keys"
            patch.setenv("JDK_JAVA_OPTIONS", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}")
            self.broker.start()

    def librdkafka_options(self, user: str = "broker", password: str = _ADMIN_PASSWORD) -> dict[str, str]:
        """What a client in Python needs beside the address, by default with all rights."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "PLAIN" if user == "broker" else "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def client_options(self, mechanism: str, authority: Path | None = None) -> dict[str, str]:
        """The values of `--kafka-option` for a job that signs in; `STUDIO_JAAS` holds the line with the secret."""
        options = {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(authority or self.authority),
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": "env:STUDIO_JAAS",
        }
        if mechanism == "OAUTHBEARER":
            options |= {
                "kafka.sasl.oauthbearer.token.endpoint.url": f"{self.tokens.url}/token",
                "kafka.sasl.login.callback.handler.class": f"{KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler",
            }
        return options


def jaas(mechanism: str, secret: str | None = None) -> str:
    """The JAAS line of a user, with the right secret unless another is given."""
    if mechanism == "OAUTHBEARER":
        module, parts = (
            "oauthbearer.OAuthBearerLoginModule",
            f'clientId="studio" clientSecret="{secret or CLIENT_SECRET}"',
        )
    else:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        parts = f'username="studio" password="{secret or PASSWORD}"'
    return f"{KAFKA}.{module} required {parts};"


@contextmanager
def secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Start the broker, with both topics and the user `studio` for each mechanism."""
    authority, server = pem_authority(folder, "studio")
    tokens = TokenEndpoint()
    with tokens.serving():
        secured = SecuredBroker(Broker(folder / "broker", _settings(authority, server, tokens.url)), authority, tokens)
        try:
            secured.start()
            admin = AdminClient(
                {"bootstrap.servers": secured.bootstrap_servers, "log_level": 0} | secured.librdkafka_options()
            )
            for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in STREAMS]).values():
                created.result(30)
            scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
            change = UserScramCredentialUpsertion("studio", scram, PASSWORD.encode())
            for changed in admin.alter_user_scram_credentials([change]).values():
                changed.result(30)
            yield secured
        finally:
            secured.broker.stop()


def _settings(authority: Path, server: Path, tokens_url: str) -> dict[str, str]:
    listener = "listener.name.broker"
    users = f'user_broker="{_ADMIN_PASSWORD}" user_studio="{PASSWORD}"'
    plain = f'{KAFKA}.plain.PlainLoginModule required username="broker" password="{_ADMIN_PASSWORD}" {users};'
    tokens = f'{KAFKA}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    return {
        "listener.security.protocol.map": "BROKER:SASL_SSL,CONTROLLER:PLAINTEXT",
        # Of the last one the broker knows the name only: clients get as far as their own credentials.
        "sasl.enabled.mechanisms": ",".join((*SecuredBroker.mechanisms, "AWS_MSK_IAM")),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
        f"{listener}.plain.sasl.jaas.config": plain,
        f"{listener}.aws_msk_iam.sasl.jaas.config": plain,
        f"{listener}.scram-sha-512.sasl.jaas.config": f"{KAFKA}.scram.ScramLoginModule required;",
        f"{listener}.oauthbearer.sasl.jaas.config": tokens,
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": (
            f"{KAFKA}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": f"{tokens_url}/keys",
        "sasl.oauthbearer.expected.audience": _AUDIENCE,
    }
