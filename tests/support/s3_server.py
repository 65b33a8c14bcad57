"""A server with the interface of S3: moto's, with what a real one does and moto does not.

A condition such as `If-None-Match` and the write that it allows are one step, and only one access key may do anything.
Run as `s3_server.py ACCESS_KEY`, in an environment of its own; it prints its port. The objects are in memory.
"""

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

_UNKNOWN_KEY = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>InvalidAccessKeyId</Code>'
    b"<Message>The AWS Access Key Id you provided does not exist in our records.</Message></Error>"
)

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


def strict(application: Application, access_key: str) -> Application:
    """The application, for one access key, and with one request at a time."""
    one_request = threading.Lock()

    def answer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if f"Credential={access_key}/" not in environ.get("HTTP_AUTHORIZATION", ""):
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [_UNKNOWN_KEY]
        with one_request:
            return list(application(environ, start_response))

    return answer


class OneContinue(MotoRequestHandler):
    """Leaves "100 Continue" to Werkzeug: Python says it too, and a client takes the second one for the answer."""

    def handle_expect_100(self) -> bool:
        return True


if __name__ == "__main__":
    server = make_server(
        "127.0.0.1",
        0,
        strict(DomainDispatcherApplication(create_backend_app), sys.argv[1]),
        threaded=True,
        request_handler=OneContinue,
    )
    print("serving at port", server.port, flush=True)  # noqa: T201 - the parent reads it
    server.serve_forever()
