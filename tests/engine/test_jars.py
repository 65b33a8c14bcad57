"""Jars are fetched once, from a mirror and with a certificate authority; the mirror runs on this machine."""

import hashlib
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
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


@contextmanager
def mirror(folder: Path, tls: Path | None = None) -> Iterator[str]:
    """Serve a repository with one jar from this folder; yields host and port."""
    jar = folder / "maven2" / PATH
    jar.parent.mkdir(parents=True)
    jar.write_bytes(CONTENT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder)) as server:
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


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
    with mirror(tmp_path / "mirror") as host:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://{host}/maven2/")
        first = jar_paths("spark")
    assert first == [tmp_path / "jars" / "spark" / "thing-1.0.jar"]
    assert first[0].read_bytes() == CONTENT
    assert jar_paths("spark") == first, "without the mirror"


@pytest.mark.parametrize(
    ("path", "sha256", "refusal"),
    [
        (PATH, "00", f"{PATH} has SHA-256 {SHA256_OF_CONTENT}, not 00: do not use it"),
        ("org/missing.jar", "", r"org/missing.jar could not .*404"),
    ],
)
def test_a_wrong_or_missing_file_is_refused_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, sha256: str, refusal: str
) -> None:
    with mirror(tmp_path / "mirror") as host:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"http://reader:hunter2@{host}/maven2")
        with pytest.raises(SetupError, match=refusal) as raised:
            fetch(path, tmp_path / "thing.jar", sha256)
    assert "hunter2" not in str(raised.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mirror"]


def test_a_certificate_authority_is_trusted_only_where_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, certificate = pem_authority(tmp_path, "tests")
    with mirror(tmp_path / "mirror", tls=certificate) as host:
        monkeypatch.setenv("MAVEN_MIRROR_URL", f"https://{host}/maven2")
        with pytest.raises(SetupError, match=r"CERTIFICATE_VERIFY_FAILED.*SSL_CERT_FILE"):
            fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        fetch(PATH, tmp_path / "thing.jar", SHA256_OF_CONTENT)
    assert (tmp_path / "thing.jar").read_bytes() == CONTENT


def test_every_pinned_jar_has_a_hash() -> None:
    assert all(len(jar.sha256) == 64 for jar_set in get_args(jars.JarSet) for jar in pinned_jars(jar_set))
