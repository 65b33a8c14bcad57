"""Download jars from Maven Central or a mirror, with the proxies and certificate authorities that pip uses."""

import hashlib
import os
import ssl
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import requests
import truststore
from requests.adapters import HTTPAdapter
from tenacity import retry, retry_if_exception, stop_after_attempt, wait_exponential

from sessionization.errors import SetupError

MAVEN_CENTRAL = "https://repo1.maven.org/maven2"
MIRROR_VARIABLE = "MAVEN_MIRROR_URL"
"""The environment variable with the address of a mirror, which must have the layout of Maven Central."""

_CA_VARIABLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_ATTEMPTS = 4
_PAUSE_S = 0.5
_TIMEOUTS_S = (10, 60)  # to connect, and between two chunks
_CHUNK_BYTES = 1024 * 1024
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        return status == _TOO_MANY_REQUESTS or status >= _SERVER_ERROR
    transient_errors = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(error, transient_errors) and not isinstance(error, requests.exceptions.SSLError)


class MavenRepository:
    """Maven Central, or the mirror that the environment names. Its connections are closed at the end of `with`.

    `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` select the proxy. Certificate authorities come from the first of
    `PIP_CERT`, `REQUESTS_CA_BUNDLE`, `CURL_CA_BUNDLE` and `SSL_CERT_FILE` that is set, otherwise from the system.
    """

    def __init__(self) -> None:
        self._base_url = (os.environ.get(MIRROR_VARIABLE) or MAVEN_CENTRAL).rstrip("/")
        self._session = requests.Session()
        self._ca_bundle = next((os.environ[name] for name in _CA_VARIABLES if os.environ.get(name)), None)
        if self._ca_bundle is None:
            self._session.mount("https://", _SystemAuthorities())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def fetch(self, path: str, to: Path, sha256: str) -> None:
        """Write the file at `path` of the repository to `to`, in one step and only if it has the pinned SHA-256.

        Tries again after transient failures. Raises `SetupError` with one line when the download fails.
        """
        url = f"{self._base_url}/{path}"
        printable_url = _without_password(url)
        partial_file = to.with_name(f".{to.name}.part")
        try:
            found = self._download(url, partial_file)
        except OSError as error:  # covers all errors of requests, and a full disk
            partial_file.unlink(missing_ok=True)
            msg = f"{printable_url} could not be fetched ({_cause(error)}): {_advice(error)}, then run again"
            raise SetupError(msg) from error
        if found != sha256:
            partial_file.unlink()
            msg = f"{printable_url} has SHA-256 {found}, not {sha256}: do not use it; ask who runs your mirror or proxy"
            raise SetupError(msg)
        partial_file.replace(to)

    @retry(
        retry=retry_if_exception(_is_transient),
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_exponential(_PAUSE_S),
        reraise=True,
    )
    def _download(self, url: str, to: Path) -> str:
        """Write the file at `url` to `to`, and return its SHA-256."""
        digest = hashlib.sha256()
        with (
            self._session.get(url, stream=True, timeout=_TIMEOUTS_S, verify=self._ca_bundle or True) as response,
            to.open("wb") as file,
        ):
            response.raise_for_status()
            for chunk in response.iter_content(_CHUNK_BYTES):
                digest.update(chunk)
                file.write(chunk)
        return digest.hexdigest()


class _SystemAuthorities(HTTPAdapter):
    """Trusts the certificate authorities of the operating system, as pip does."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, **kwargs, ssl_context=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def _cause(error: OSError) -> str:
    """Return the cause of a failure, without the addresses that requests and urllib3 repeat around it."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"{error.response.status_code} {error.response.reason}"
    inner = error.args[0] if isinstance(error, requests.RequestException) and error.args else error
    return str(getattr(inner, "reason", inner))


def _advice(error: OSError) -> str:
    if isinstance(error, requests.exceptions.SSLError):
        return "let SSL_CERT_FILE name a file that holds the certificate authorities of your network"
    if isinstance(error, requests.exceptions.ProxyError):
        return "check HTTPS_PROXY and NO_PROXY"
    if isinstance(error, requests.HTTPError):
        return f"let {MIRROR_VARIABLE} name a mirror of Maven Central that has the file"
    if not isinstance(error, requests.RequestException):  # a full disk, or a CA file that is missing
        return "see to the file or folder"
    return f"check the network; HTTPS_PROXY may name a proxy, {MIRROR_VARIABLE} a mirror of Maven Central"


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
