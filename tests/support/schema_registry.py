"""A schema registry on this machine: what Confluent's answers to `GET /schemas/ids/…` and `GET /subjects/…`."""

import json
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

NOT_FOUND = 404, {"error_code": 40403, "message": "Schema not found"}
Answer = tuple[int, dict[str, Any] | str]


class SchemaRegistry:
    """Serves `answers`, by path. It can go away, and come back at the same address; `asked` are the paths asked for."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.signed: set[str | None] = set()
        self._certificate = certificate
        self._port = 0
        self.start()

    def add(self, schema_id: int, schema: Any, **more: Any) -> None:
        self.answers[f"/schemas/ids/{schema_id}"] = 200, {"schema": json.dumps(schema), **more}

    def start(self) -> None:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.signed.add(self.headers["Authorization"])
                code, content = registry.answers.get(self.path, NOT_FOUND)
                self.send_response(code)
                self.end_headers()
                self.wfile.write((content if isinstance(content, str) else json.dumps(content)).encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        if self._certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_port
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http{'' if self._certificate is None else 's'}://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
