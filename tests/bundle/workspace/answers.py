"""Requests, answers and errors of a workspace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the handlers see it: `path` holds the values of the route's `{names}`."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    json: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: a JSON value, or raw bytes."""

    body: Any = None
    status: int = 200


class Refused(Exception):  # noqa: N818 - an answer, not an error of the program
    """Raised for a request that a workspace answers with an error."""

    def __init__(self, status: int, error_code: str, message: str) -> None:
        super().__init__(message)
        self.answer = Answer({"error_code": error_code, "message": message}, status)


Handler = Callable[[Request], Any]
Routes = dict[tuple[str, str], Handler]


def missing(message: str) -> Refused:
    return Refused(404, "RESOURCE_DOES_NOT_EXIST", message)


def found(things: Mapping[str, Any], key: str, what: str) -> Any:
    """Return the thing with this key.

    Raises `Refused` if there is none.
    """
    if key not in things:
        msg = f"{what} '{key}' does not exist."
        raise missing(msg)
    return things[key]
