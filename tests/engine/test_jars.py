"""Jars are fetched with mirrors, proxies and certificate authorities; all servers here run on this machine."""

import hashlib
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import get_args

import pytest

from sessionization.errors import SetupError
from sessionization_laptop.engine import jars
from sessionization_laptop.engine.jars import fetch, jar_paths, pinned_jars
from tests.support.certificates import pem_authority

CONTENT = b"a jar"
SHA256_OF_CONTENT = hashlib.sha256(CONTENT).hexdigest()
PATH = "org/example/thing/1.0/thing-1.0.jar"


class Server(ThreadingHTTPServer):
    """Answers every request with one status and `CONTENT`, and records the requested paths."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.status, self.requested = status, list[str]()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requested.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(status: int = 200, tls: Path | None = None) -> Iterator[Server]:
    with Server(status) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clears the environment of proxies, certificates and mirrors."""
    parts = ("PROXY", "_CERT", "_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "MAVEN_")
    for name in [name for name in os.environ if any(part in name.upper() for part in parts)]:
        monkeypatch.delenv(name)


def test_a_jar_comes_once_from_the_mirror_into_the_python_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = jars.Jar("org.example", "thing", "1.0", SHA256_OF_CONTENT)
    monkeypatch.setattr(jars, "pinned_jars", lambda _: [thing])
    monkeypatch.setattr(jars, "ENGINE_FOLDER", tmp_path)
    with serving() as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}/maven2/")
        first, again = jar_paths("spark"), jar_paths("spark")
    assert first == again == [tmp_path / "jars" / "spark" / "thing-1.0.jar"]
    assert first[0].read_bytes() == CONTENT
    assert mirror.requested == [f"/maven2/{PATH}"]


@pytest.mark.parametrize(
    ("status", "sha256", "refusal"),
    [
        (200, "00", f"{PATH} has SHA-256 {SHA256_OF_CONTENT}, not 00: do not use it"),
        (404, "", f"{PATH} could not .*404"),
    ],
)
def test_a_wrong_or_missing_file_is_refused_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, sha256: str, refusal: str
) -> None:
    with serving(status) as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://reader:hunter2@{mirror.host}")
        with pytest.raises(SetupError, match=refusal) as raised:
            fetch(PATH, tmp_path / "thing.jar", sha256)
    assert "hunter2" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_is_used_except_for_hosts_in_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as mirror, serving() as proxy:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}")
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.host}")
        fetch(PATH, tmp_path / "through.jar", SHA256_OF_CONTENT)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        fetch(PATH, tmp_path / "past.jar", SHA256_OF_CONTENT)
    assert proxy.requested == [f"http://{mirror.host}/{PATH}"]
    assert mirror.requested == [f"/{PATH}"]


def test_a_certificate_authority_is_trusted_only_where_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, certificate = pem_authority(tmp_path, "tests")
    with serving(tls=certificate) as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"https://{mirror.host}")
        with pytest.raises(SetupError, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
            fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    assert (tmp_path / "thing.jar").read_bytes() == CONTENT


def test_every_pinned_jar_has_a_hash() -> None:
    assert all(len(jar.sha256) == 64 for jar_set in get_args(jars.JarSet) for jar in pinned_jars(jar_set))
