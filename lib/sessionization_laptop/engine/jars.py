"""The jars that pyspark does not include, downloaded once and checked against their hashes."""

import fcntl
import hashlib
import os
import ssl
import sys
from configparser import ConfigParser
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from sessionization.command_line.parser import run
from sessionization.errors import SetupError
from sessionization.files import open_whole
from sessionization_laptop.engine import ENGINE_FOLDER

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
_LONGEST_SILENCE_S = 60


@dataclass(frozen=True, slots=True)
class Jar:
    """Maven coordinates of a file, and the SHA-256 that it must have.

    `classifier` names another file of the module, such as `all`, which includes what it needs.
    """

    organisation: str
    module: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file_name(self) -> str:
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.module}-{self.version}{suffix}.jar"

    @property
    def path(self) -> str:
        """The path of the file in a Maven repository."""
        return f"{self.organisation.replace('.', '/')}/{self.module}/{self.version}/{self.file_name}"


JarSet = Literal["spark", "broker", "hdfs", "s3", "msk", "docs"]
"""The sections of `jars.lock`: what a session needs beside pyspark; a Kafka broker; the tests' HDFS; S3's client;
the sign-in with IAM to Amazon MSK; the site's diagrams.
"""


def pinned_jars(jar_set: JarSet) -> list[Jar]:
    """Return the jars of one section of `jars.lock`."""
    lock = ConfigParser(allow_no_value=True, delimiters=(" sha256:",), interpolation=None)
    lock.optionxform = str  # type: ignore[assignment,method-assign] # names are case-sensitive
    lock.read_string((files("sessionization_laptop.engine") / "jars.lock").read_text(encoding="utf-8"))
    jars = []
    for coordinates, sha256 in lock[jar_set].items():
        organisation, module, version, *classifier = coordinates.split(":")
        jars.append(Jar(organisation, module, version, sha256, *classifier))
    return jars


def jar_paths(jar_set: JarSet) -> list[Path]:
    """Return the paths of the jars, and download the missing ones; only the first call needs the network.

    They come from Maven Central, or from a mirror of its layout that `MAVEN_MIRROR_URL` names, by the proxies of
    `HTTPS_PROXY` and `NO_PROXY`. The authorities of the system and of `SSL_CERT_FILE` are trusted.

    Raises `SetupError` when a jar cannot be downloaded or does not have the pinned hash.
    """
    jars = pinned_jars(jar_set)
    folder = ENGINE_FOLDER / "jars" / jar_set
    paths = [folder / jar.file_name for jar in jars]
    if all(path.is_file() for path in paths):  # needs no write access: the folder may belong to another user
        return paths
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for jar, path in zip(jars, paths, strict=True):
            if not path.is_file():
                fetch(jar.path, path, jar.sha256)
    return paths


def fetch(path: str, to: Path, sha256: str) -> None:
    """Write the file at `path` of the repository to `to`, in one step and only if it has the pinned SHA-256."""
    import requests  # which no job needs
    import truststore
    from requests.adapters import HTTPAdapter

    class SystemAuthorities(HTTPAdapter):
        """Trusts the certificate authorities of the operating system, as pip does."""

        def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
            super().init_poolmanager(*args, **kwargs, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

        def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
            context = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            return super().proxy_manager_for(proxy, **kwargs, ssl_context=context)

    try:
        with requests.Session() as session:
            session.mount("https://", SystemAuthorities(max_retries=3))
            response = session.get(
                f"{(os.environ.get('MAVEN_MIRROR_URL') or MAVEN_CENTRAL).rstrip('/')}/{path}",
                timeout=_LONGEST_SILENCE_S,
                verify=os.environ.get("SSL_CERT_FILE") or True,
            )
        cause: object = None if response.ok else f"{response.status_code} {response.reason}"
    except OSError as error:  # covers all errors of requests
        cause = error
    if cause is not None:
        msg = (
            f"{path} could not be fetched ({cause}): check the network; HTTPS_PROXY may name a proxy, SSL_CERT_FILE "
            "the certificate authorities of your network, MAVEN_MIRROR_URL a mirror; then run again"
        )
        raise SetupError(msg)
    found = hashlib.sha256(response.content).hexdigest()
    if found != sha256:
        msg = f"{path} has SHA-256 {found}, not {sha256}: do not use it; ask who runs your mirror or proxy"
        raise SetupError(msg)
    with open_whole(to) as file:
        file.write(response.content)


def _main() -> int:
    for jar_set in get_args(JarSet):
        if jar_set in sys.argv[1:]:
            jar_paths(jar_set)
    return 0


if __name__ == "__main__":
    run(_main, "jars")
