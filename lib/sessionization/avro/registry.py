"""Asks a schema registry, or a folder of schemas, for the schema that a message names by its id."""

import base64
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from sessionization.errors import ConfigurationError

ENDING = ".avsc"
"""A folder has the schema with the id 7 in 7.avsc."""
_ANSWER_WITHIN_S = 10
_PATIENCE_S = 60
"""How long a micro-batch waits for a registry that is away."""
_NOT_FOUND = {40401, 40402, 40403}
"""What a registry answers about a subject, a version or a schema that it does not have."""
_REFUSED, _NO_PAGE, _BUSY = {401, 403}, 404, {408, 429, 500, 502, 503, 504}
_NO_ID = 0
"""Registries count from 1."""


class _AwayError(ConfigurationError):
    """Raised when a registry does not answer now."""


@dataclass(frozen=True, slots=True)
class Registry:
    """A schema registry or a folder of schemas; tasks get a copy. `authorities` are the certificates that it trusts."""

    place: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    authorities: str | None = field(default=None, repr=False)

    def check(self) -> None:
        """Raises `ConfigurationError` where the registry does not answer, or refuses this user."""
        if self._is_folder and not Path(self.place).is_dir():
            msg = f"schema_registry {self.place} is no folder: create it, or write the URL of a registry"
            raise ConfigurationError(msg)
        self._ask(f"schemas/ids/{_NO_ID}")

    @retry(
        retry=retry_if_exception_type(_AwayError),
        stop=stop_after_delay(_PATIENCE_S),
        wait=wait_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    def schemas_for(self, schema_id: int) -> list[str] | None:
        """The schema after those that it refers to; None where the registry has none of this id, or it is not Avro's.

        Waits for a registry that is away, and raises `ConfigurationError` where it stays away or refuses this user.
        """
        found = self._ask(f"schemas/ids/{schema_id}")
        schemas = None if found is None else self._with_references(found)
        return None if schemas is None else list(dict.fromkeys(schemas))

    @property
    def _is_folder(self) -> bool:
        return not self.place.startswith(("http://", "https://"))

    def _with_references(self, answer: Mapping[str, Any]) -> list[str] | None:
        if answer.get("schemaType", "AVRO") != "AVRO":
            return None
        schemas: list[str] = []
        for reference in answer.get("references", ()):
            subject, version = quote(reference["subject"], safe=""), reference["version"]
            found = self._ask(f"subjects/{subject}/versions/{version}")
            others = None if found is None else self._with_references(found)
            if others is None:
                return None
            schemas += others
        return [*schemas, answer["schema"]]

    def _ask(self, path: str) -> Mapping[str, Any] | None:
        """The answer of the registry; None where it does not have what is asked for."""
        if self._is_folder:
            file = Path(self.place) / f"{path.rpartition('/')[2]}{ENDING}"
            return {"schema": file.read_text(encoding="utf-8", errors="replace")} if file.is_file() else None
        request = Request(  # noqa: S310 - an event map takes http and https alone
            f"{self.place.rstrip('/')}/{path}", headers={"Accept": "application/vnd.schemaregistry.v1+json"}
        )
        if self.user is not None:
            signed = base64.b64encode(f"{self.user}:{self.password or ''}".encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {signed}")
        context = ssl.create_default_context(cadata=self.authorities) if request.type == "https" else None
        try:
            with urlopen(request, timeout=_ANSWER_WITHIN_S, context=context) as answer:  # noqa: S310 - likewise
                content, what = _content(answer.read()), f"{answer.status} {answer.reason}"
        except HTTPError as error:
            if error.code == _NO_PAGE and _content(error.read()).get("error_code") in _NOT_FOUND:
                return None
            raise self._refusal(error.code, f"{error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            cause = error.reason if isinstance(error, URLError) else error
            raise self._failure(cause) from None
        if not isinstance(content.get("schema"), str):
            raise self._refusal(answer.status, what)
        return content

    def _refusal(self, code: int, answer: str) -> ConfigurationError:
        place = f"schema_registry {self.place}"
        if code in _BUSY:
            return _AwayError(f"{place} does not answer ({answer}): is it up?")
        if code in _REFUSED:
            return ConfigurationError(f"{place} does not let this job in ({answer}): check its user and password")
        return ConfigurationError(f"{place} is no schema registry ({answer}): check the URL")

    def _failure(self, cause: object) -> ConfigurationError:
        place = f"schema_registry {self.place}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ConfigurationError(
                f"{place} has a certificate that is not trusted ({cause.verify_message}): name its authority's as "
                "schema_registry.ca_file"
            )
        what = cause or type(cause).__name__
        return _AwayError(f"{place} does not answer ({what}): is it up, and the address right?")


def _content(answer: bytes) -> Mapping[str, Any]:
    """The JSON object of an answer; an empty one for what is none, such as the page of a proxy."""
    try:
        content = json.loads(answer)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
