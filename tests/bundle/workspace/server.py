"""The HTTP server: routes, the caller's identity, and a record of every call."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.bundle.workspace.answers import Answer, Handler, Refused, Request, Routes
from tests.bundle.workspace.assets import Assets
from tests.bundle.workspace.catalog import Catalog
from tests.bundle.workspace.tree import Tree

PERSON = "someone@example.com"
PRINCIPAL = "00000000-0000-0000-0000-000000000000"
WORKSPACE_ID = "1"
_GROUPS = ("users", "session-operators")


class Workspace:
    """One workspace, seen by one identity; `calls` holds method, path and status of every request."""

    def __init__(self, user_name: str = PERSON, *, is_admin: bool = True) -> None:
        self.user_name = user_name
        self.calls: list[tuple[str, str, int]] = []
        self.tree = Tree(user_name, is_admin=is_admin)
        self.catalog = Catalog(user_name, self.tree)
        self.assets = Assets(user_name, self.tree)
        self.host = ""
        self._lock = threading.Lock()
        routes = self._routes() | self.tree.routes() | self.catalog.routes() | self.assets.routes()
        self._compiled = [(method, _pattern(path), handler) for (method, path), handler in routes.items()]

    @property
    def unknown_calls(self) -> list[tuple[str, str]]:
        """The requests without a route: the first place to look when a newer CLI fails."""
        return [(method, path) for method, path, status in self.calls if status == 501]

    def answer(self, method: str, target: str, body: bytes) -> Answer:
        """Answer one request at a time, so that handlers need no locks."""
        parts = urlsplit(target)
        with self._lock:
            answer = self._answer(method, parts.path, dict(parse_qsl(parts.query, keep_blank_values=True)), body)
            self.calls.append((method, unquote(parts.path), answer.status))
        return answer

    def _answer(self, method: str, path: str, query: dict[str, str], body: bytes) -> Answer:
        for known_method, pattern, handler in self._compiled:
            match = pattern.fullmatch(path)
            if match is None or known_method != method:
                continue
            named = {name: unquote(value) for name, value in match.groupdict().items()}
            try:
                answer = handler(Request(named, query, body, _json(body)))
            except Refused as refused:
                return refused.answer
            except (LookupError, TypeError, ValueError) as error:
                return Answer({"error_code": "INVALID_PARAMETER_VALUE", "message": f"{method} {path}: {error!r}"}, 400)
            return answer if isinstance(answer, Answer) else Answer({} if answer is None else answer)
        return Answer({"error_code": "NOT_IMPLEMENTED", "message": f"{method} {path} is not played here"}, 501)

    def _routes(self) -> Routes:
        def constant(value: Any) -> Handler:
            return lambda _request: value

        nowhere = Answer({"error_code": "ENDPOINT_NOT_FOUND", "message": "no such endpoint"}, 404)
        return {
            ("GET", "/.well-known/databricks-config"): lambda _: {
                "oidc_endpoint": f"{self.host}/oidc",
                "workspace_id": WORKSPACE_ID,
            },
            ("GET", "/oidc/.well-known/oauth-authorization-server"): constant(nowhere),
            ("GET", "/api/2.0/preview/scim/v2/Me"): lambda _: self._me(),
            ("POST", "/telemetry-ext"): constant({"errors": [], "numProtoSuccess": 1}),
            ("GET", "/api/2.1/clusters/spark-versions"): constant({"versions": []}),
            ("GET", "/api/2.1/clusters/list"): constant({"clusters": []}),
            ("GET", "/api/2.0/policies/clusters/list"): constant({"policies": []}),
            ("GET", "/api/2.0/instance-pools/list"): constant({"instance_pools": []}),
            ("GET", "/api/2.0/secrets/scopes/list"): constant({"scopes": []}),
            ("POST", "/api/2.0/secrets/scopes/create"): constant({}),
            ("POST", "/api/2.0/secrets/put"): constant({}),
            ("POST", "/api/2.0/secrets/acls/put"): constant({}),
        }

    def _me(self) -> dict[str, Any]:
        return {
            "id": "1",
            "userName": self.user_name,
            "displayName": self.user_name.partition("@")[0],
            "active": True,
            "groups": [{"display": group, "value": str(number)} for number, group in enumerate(_GROUPS)],
        }


@contextmanager
def served(workspace: Workspace, port: int = 0) -> Iterator[Workspace]:
    """Serve a workspace on 127.0.0.1, at its `host`, until the `with` block ends."""

    class RequestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _reply(self) -> None:
            answer = workspace.answer(self.command, self.path, _body(self.headers, self.rfile))
            is_bytes = isinstance(answer.body, bytes)
            content = answer.body if is_bytes else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/octet-stream" if is_bytes else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Databricks-Org-Id", WORKSPACE_ID)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _reply  # noqa: N815 - as http.server calls them

        def log_message(self, *_args: Any) -> None:
            """Log nothing: `calls` records every request."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # a deploy uploads many files at once

    server = Server(("127.0.0.1", port), RequestHandler)
    workspace.host = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield workspace
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _body(headers: Message, stream: BinaryIO) -> bytes:
    """The body of a request, with a length in the header or in chunks."""
    if "chunked" not in headers.get("Transfer-Encoding", "").lower():
        return stream.read(int(headers.get("Content-Length") or 0))
    pieces = []
    while length := int(stream.readline().partition(b";")[0], 16):
        pieces.append(stream.read(length))
        stream.readline()
    while stream.readline().strip():
        pass
    return b"".join(pieces)


def _pattern(path: str) -> re.Pattern[str]:
    """Compile a route: `{name}` matches one part of a path, with escaped characters; `{name...}` matches the rest."""
    rest = re.sub(r"\\\{(\w+)\\\.\\\.\\\.\\\}", r"(?P<\1>.+)", re.escape(path))
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", rest))


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else {}
    except ValueError:  # the body is a file, not JSON
        return {}
