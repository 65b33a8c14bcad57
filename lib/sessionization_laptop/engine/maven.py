"""Download jars from Maven Central or a mirror, with the proxies and certificate authorities that pip uses."""

import hashlib
import os
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import truststore
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from sessionization.errors import SetupError
from sessionization.files import open_whole

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
MIRROR_VARIABLE = "MAVEN_MIRROR_URL"
"""The environment variable with the address of a mirror, which must have the layout of Maven Central."""

_CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_RETRIES = Retry(3, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False)
_TIMEOUTS_S = (10, 60)  # to connect, and between two packets


def fetch(path: str, to: Path, sha256: str) -> None:
    """Write the file at `path` of the repository to `to`, in one step and only if it has the pinned SHA-256.

    `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` select the proxy. Certificate authorities come from the first of
    `PIP_CERT`, `REQUESTS_CA_BUNDLE`, `CURL_CA_BUNDLE` and `SSL_CERT_FILE` that is set, otherwise from the system.

    Tries again after transient failures. Raises `SetupError` with one line when the download fails.
    """
    url = f"{(os.environ.get(MIRROR_VARIABLE) or MAVEN_CENTRAL).rstrip('/')}/{path}"
    printable_url = urlsplit(url)._replace(netloc=urlsplit(url).netloc.rpartition("@")[2]).geturl()
    ca_bundle = next((os.environ[name] for name in _CA_VARIABLES if os.environ.get(name)), None)
    try:
        with requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=_RETRIES))
            adapter = HTTPAdapter if ca_bundle else _SystemAuthorities
            session.mount("https://", adapter(max_retries=_RETRIES))
            response = session.get(url, timeout=_TIMEOUTS_S, verify=ca_bundle or True)
        cause: object = None if response.ok else f"{response.status_code} {response.reason}"
    except OSError as error:  # covers all errors of requests
        cause = error
    if cause is not None:
        msg = (
            f"{printable_url} could not be fetched ({cause}): check the network; HTTPS_PROXY may name a proxy, "
            f"SSL_CERT_FILE the certificate authorities of your network, {MIRROR_VARIABLE} a mirror; then run again"
        )
        raise SetupError(msg)
    found = hashlib.sha256(response.content).hexdigest()
    if found != sha256:
        msg = f"{printable_url} has SHA-256 {found}, not {sha256}: do not use it; ask who runs your mirror or proxy"
        raise SetupError(msg)
    with open_whole(to) as file:
        file.write(response.content)


class _SystemAuthorities(HTTPAdapter):
    """Trusts the certificate authorities of the operating system, as pip does."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, **kwargs, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
