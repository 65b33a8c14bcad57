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
from sessionization_laptop.engine import jars, maven
from sessionization_laptop.engine.jars import jar_paths, pinned_jars
from sessionization_laptop.engine.maven import fetch
from tests.support.certificates import pem_authority

CONTENT = b"a jar"
SHA256_OF_CONTENT = hashlib.sha256(CONTENT).hexdigest()
PATH = "org/example/thing/1.0/thing-1.0.jar"


class Server(ThreadingHTTPServer):
    """Answers requests with the given failures, then with `CONTENT`, and records the requested paths."""

    def __init__(self, *failures: int) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.failures, self.requested = [*failures], []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requested.append(self.path)
        failure = self.server.failures.pop(0) if self.server.failures else None
        self.send_response(failure or 200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*failures: int, tls: Path | None = None) -> Iterator[Server]:
    with Server(*failures) as server:
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
    """Clears the environment of proxies, certificates and mirrors, and waits for nothing."""
    parts = ("PROXY", "_CERT", "_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR", "MAVEN_")
    for name in [name for name in os.environ if any(part in name.upper() for part in parts)]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(maven, "_RETRIES", maven._RETRIES.new(backoff_factor=0))


def test_a_file_comes_from_the_mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}/maven2/")
        fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    assert mirror.requested == [f"/maven2/{PATH}"]
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("thing.jar", CONTENT)]


def test_a_wrong_hash_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = rf"/{PATH} has SHA-256 {SHA256_OF_CONTENT}, not 00: do not use it"
    with serving() as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}")
        with pytest.raises(SetupError, match=refused):
            fetch(PATH, tmp_path / "thing.jar", "00")
    assert mirror.requested == [f"/{PATH}"]  # requested once: the next answer would be the same
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_reported_without_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(404) as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://reader:hunter2@{mirror.host}/maven2")
        with pytest.raises(SetupError) as raised:
            fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    said = str(raised.value)
    assert f"http://{mirror.host}/maven2/{PATH}" in said
    assert "404" in said
    assert "hunter2" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_failure_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(503, 429, 500) as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}")
        fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    assert len(mirror.requested) == 4
    assert (tmp_path / "thing.jar").read_bytes() == CONTENT


def test_a_proxy_is_used_except_for_hosts_in_no_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as mirror, serving() as proxy:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}")
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.host}")
        fetch(PATH, tmp_path / "through.jar", SHA256_OF_CONTENT)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        fetch(PATH, tmp_path / "past.jar", SHA256_OF_CONTENT)
    assert proxy.requested == [f"http://{mirror.host}/{PATH}"]
    assert mirror.requested == [f"/{PATH}"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An authority's certificate, and the key and certificate of a server on 127.0.0.1."""
    return pem_authority(tmp_path_factory.mktemp("tls"), "tests")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "PIP_CERT"])
def test_a_certificate_authority_from_the_environment_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: tuple[Path, Path], variable: str
) -> None:
    authority, server = certificates
    monkeypatch.setenv(variable, str(authority))
    with serving(tls=server) as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"https://{mirror.host}")
        fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    assert (tmp_path / "thing.jar").read_bytes() == CONTENT


def test_an_unknown_certificate_authority_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: tuple[Path, Path]
) -> None:
    with serving(tls=certificates[1]) as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"https://{mirror.host}")
        with pytest.raises(SetupError, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
            fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    assert mirror.requested == []


def test_jars_are_stored_in_the_python_environment_and_fetched_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = jars.Jar("org.example", "thing", "1.0", SHA256_OF_CONTENT)
    monkeypatch.setattr(jars, "pinned_jars", lambda _: [thing])
    monkeypatch.setattr(jars, "ENGINE_FOLDER", tmp_path)
    with serving() as mirror:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{mirror.host}")
        first, again = jar_paths("spark"), jar_paths("spark")
    assert first == again == [tmp_path / "jars" / "spark" / "thing-1.0.jar"]
    assert mirror.requested == [f"/{PATH}"]


def test_every_pinned_jar_has_a_hash() -> None:
    assert all(len(jar.sha256) == 64 for jar_set in get_args(jars.JarSet) for jar in pinned_jars(jar_set))
